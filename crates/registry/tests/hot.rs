//! The hot tier is what is stored, however it came to be.

use std::sync::Arc;
use std::time::Instant;

use crate::support::compare::assert_is_as_stored;
use crate::support::{House, no_sweep};
use futures::future::join_all;
use rowlock_core::command::Places;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{CartToken, Command, EventId, Fact, Time};
use rowlock_registry::EngineOptions;
use rowlock_registry::hot::{HotTier, LEAST_WEIGHT};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::{Setup, Stage, section, user};

const BIG: u32 = 100_000;

fn big_sections() -> Vec<rowlock_core::command::NewSection> {
    (0..4).map(|block| section(&format!("block {block}"), block * 250..(block + 1) * 250, 100)).collect()
}

fn empty() -> Setup {
    Setup { rows: 0, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_seats_are_loaded_in_64_bytes_each() {
    let house = House::new(empty()).await;
    let create = Command::CreateSeats { event: house.stage.event, sections: big_sections() };
    house.stage.one(house.stage.request(create)).await.expect("seats");
    for buyer in 0..20 {
        let seats: Vec<u32> = (0..100).map(|i| buyer * 5_000 + i * 7).collect();
        house.stage.held(house.stage.hold(&format!("buyer-{buyer}"), &seats)).await;
    }
    let began = Instant::now();
    let live = house.live().await;
    let took = began.elapsed();
    let bytes = live.read().bytes();
    println!("{BIG} seats loaded in {took:?}, {:.1} bytes a seat", bytes as f64 / f64::from(BIG));
    assert_eq!(live.read().seat_count(), BIG);
    assert_eq!(live.read().counts().held, 2_000);
    assert!(bytes <= 64 * BIG as usize, "{bytes} bytes");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seats_added_while_in_memory_take_no_more_room_than_loaded_ones() {
    let house = House::new(empty()).await;
    let live = house.live().await;
    assert_eq!(live.read().seat_count(), 0);
    let before = live.read().layout_version();
    // Somebody still reads the old layout, so the new one is a copy.
    let old = Arc::clone(live.read().layout());
    for section in big_sections() {
        let create = Command::CreateSeats { event: house.stage.event, sections: vec![section] };
        house.engine.execute(house.stage.request(create)).await.expect("seats");
    }
    assert_eq!((old.len(), live.read().seat_count()), (0, BIG));
    assert!(live.read().layout_version() > before);
    let bytes = live.read().bytes();
    println!("{BIG} seats added take {:.1} bytes a seat", bytes as f64 / f64::from(BIG));
    assert!(bytes <= 64 * BIG as usize, "{bytes} bytes");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surely_taken_means_taken_for_this_user_and_for_longer_than_the_margin() {
    let house = House::new(Setup::default()).await;
    let (ann, bob) = (user("ann"), user("bob"));
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    let sold = house.held(house.stage.hold("ann", &[1])).await;
    assert_eq!(sold.id, hold.id);
    let other = house.held(house.stage.hold("bob", &[2])).await;
    house.engine.execute(house.stage.confirm("bob", other.id)).await.expect("a booking");
    let block = Command::BlockSeats { event: house.stage.event, seats: house.stage.seats(&[3]) };
    house.engine.execute(house.stage.request(block)).await.expect("blocked");

    let live = house.live().await;
    {
        let event = live.read();
        let (now, end) = (hold.created_at, hold.expires_at);
        let margin = end.millis_since(now);
        assert!(event.surely_taken(0, &bob, || now, margin - 1));
        assert!(!event.surely_taken(0, &bob, || now, margin), "it could end within the margin");
        assert!(!event.surely_taken(0, &bob, || end, 0), "it is over");
        assert!(!event.surely_taken(0, &ann, || now, 0), "it is hers");
        assert!(!event.surely_taken(0, &bob, || now, i64::MAX), "no margin is too large to add");
        assert!(event.surely_taken(2, &ann, || end, i64::MAX), "sold is sold");
        assert!(event.surely_taken(2, &bob, || Time::from_millis(0), 0), "also to its owner");
        assert!(!event.surely_taken(3, &bob, || now, 0), "what is blocked the truth must say");
        assert!(!event.surely_taken(4, &bob, || now, 0), "what is free can be had");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_of_free_seats_in_a_new_cart_is_believed() {
    let house = House::believing(Setup::default()).await;
    let (live, stage) = (house.live().await, &house.stage);
    let in_cart = |who: &str, cart: &str, seats: &[u32]| {
        let cart = CartToken::new(cart).unwrap();
        Places { cart, ..stage.places(who, seats, &[]) }
    };
    let believed = |places: Places| live.read().believe(&places).map(|belief| belief.tiers.len());
    assert_eq!(believed(in_cart("ann", "one", &[0, 1])), Some(2));
    assert_eq!(believed(in_cart("ann", "one", &[0, 9_999])), None, "there is no such seat");
    assert_eq!(believed(stage.places("ann", &[0], &[(stage.areas[0], 1)])), None, "an area must be counted");

    let hold = house.held(stage.hold_in_cart("ann", "one", &[0])).await;
    assert_eq!(believed(in_cart("bob", "one", &[0])), None, "it is held");
    assert_eq!(believed(in_cart("ann", "one", &[1])), None, "the cart has a hold");
    assert_eq!(believed(in_cart("ann", "two", &[1])), Some(1), "another cart has none");
    house.engine.execute(stage.release("ann", hold.id, &[])).await.expect("it is hers");
    assert_eq!(believed(in_cart("ann", "one", &[0])), Some(1), "it is as before");

    let sold = house.held(stage.hold_in_cart("bob", "one", &[2])).await;
    house.engine.execute(stage.confirm("bob", sold.id)).await.expect("a booking");
    assert_eq!(believed(in_cart("cid", "one", &[2])), None, "it is sold");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_users_are_limited_only_new_ones_are_believed() {
    let mut setup = Setup::default();
    setup.policy.seats_per_user = Some(4);
    let house = House::believing(setup).await;
    let (live, stage) = (house.live().await, &house.stage);
    let believed = |who: &str| live.read().believe(&stage.places(who, &[5], &[])).is_some();
    assert!(believed("ann"));
    let hold = house.held(stage.hold_in_cart("ann", "one", &[0])).await;
    assert!(!believed("ann") && believed("bob"), "her other carts count too");
    house.engine.execute(stage.release("ann", hold.id, &[])).await.expect("it is hers");
    assert!(!believed("ann"), "she may have more than this one");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_unused_for_longest_leaves_and_comes_back_current() {
    let house = House::new(Setup::default()).await;
    let mut stages = vec![house.stage.clone()];
    for _ in 0..2 {
        let truth = Arc::clone(&house.truth) as Arc<dyn Truth>;
        stages.push(Stage::in_org(truth, house.stage.org, Setup::default()).await);
    }
    let hot = HotTier::new(Arc::clone(&house.truth) as Arc<dyn Truth>, None, 2 * LEAST_WEIGHT);
    let get = async |i: usize| hot.get(stages[i].event).await.expect("a read").expect("the event");
    house.truth.forget();
    let first = get(0).await;
    get(1).await;
    get(0).await;
    get(2).await;
    assert_eq!((hot.len(), house.truth.loads.came()), (2, 3));
    assert!(Arc::ptr_eq(&first, &get(0).await), "the one in use stayed");
    // Facts of the one that left are not kept, and it is loaded with them when it is wanted again.
    let committed = stages[1].one(stages[1].hold("ann", &[0])).await.expect("a hold");
    for (sequence, fact) in &committed.facts {
        hot.apply(stages[1].event, [(*sequence, fact)]);
    }
    assert_eq!(hot.len(), 2);
    let back = get(1).await;
    assert_eq!(back.read().seat(0).status, SeatStatus::Held);
    assert_is_as_stored(&back, &*house.truth).await;
    house.close().await;
}

/// Ten events of 250,000 seats need as much memory as thousands of small ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_take_the_room_of_many() {
    let house = House::new(Setup::default()).await;
    let truth = || Arc::clone(&house.truth) as Arc<dyn Truth>;
    let of_seats = async |seats: usize| {
        Stage::in_org(truth(), house.stage.org, Setup { rows: seats / 10, ..Setup::default() }).await
    };
    let (small, large) = (of_seats(10).await, of_seats(2 * LEAST_WEIGHT as usize).await);
    let hot = HotTier::new(truth(), None, 3 * LEAST_WEIGHT);
    let get = async |stage: &Stage| hot.get(stage.event).await.expect("a read").expect("the event");
    get(&house.stage).await;
    get(&small).await;
    assert_eq!(hot.len(), 2);
    get(&large).await;
    assert!(hot.peek(house.stage.event).is_none(), "the one unused for longest made room");
    assert_eq!(hot.len(), 2);
    // Seats that an event gets while it is in memory count as well.
    let grown = of_seats(10).await;
    get(&grown).await;
    let sections = vec![section("more", 0..200, 10)];
    let more = grown.request(Command::CreateSeats { event: grown.event, sections });
    let committed = grown.one(more).await.expect("more seats");
    for (sequence, fact) in &committed.facts {
        hot.apply(grown.event, [(*sequence, fact)]);
    }
    get(&small).await;
    assert_eq!(hot.ids(), [small.event], "beside the one that has grown there is no room for another");
    // Not even one that is larger than all the room is refused.
    let huge = of_seats(4 * LEAST_WEIGHT as usize).await;
    get(&huge).await;
    assert_eq!(hot.ids(), [huge.event]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missed_fact_is_noticed_and_the_event_is_loaded_again() {
    let house = House::new(Setup::default()).await;
    let before = house.live().await;
    // Past the engine, as another node would do it.
    house.stage.held(house.stage.hold("ann", &[0])).await;
    assert_eq!(house.status(0).await, SeatStatus::Available, "nobody has told it");
    house.held(house.stage.hold("bob", &[1])).await;
    let after = house.live().await;
    assert!(!Arc::ptr_eq(&before, &after), "it was loaded again");
    assert_eq!(after.read().seat(0).status, SeatStatus::Held);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_for_an_event_share_one_load() {
    let house = House::new(Setup::default()).await;
    house.truth.loads.shut();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let (engine, org, event) = (house.engine.clone(), house.stage.org, house.stage.event);
            tokio::spawn(async move { engine.event(org, event).await.expect("the event") })
        })
        .collect();
    house.truth.loads.reached(1).await;
    house.truth.loads.open();
    let events: Vec<_> = join_all(waiting).await.into_iter().map(|event| event.expect("no panic")).collect();
    assert!(events.iter().all(|event| Arc::ptr_eq(event, &events[0])));
    assert_eq!(house.truth.loads.came(), 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_does_not_exist_leaves_nothing_behind() {
    let house = House::new(Setup::default()).await;
    let hot = HotTier::new(Arc::clone(&house.truth) as Arc<dyn Truth>, None, 10 * LEAST_WEIGHT);
    let nobody = EventId::from_uuid(uuid::Uuid::from_u128(1));
    assert!(hot.get(nobody).await.expect("a read").is_none());
    assert!(hot.is_empty());
    house.close().await;
}

/// The snapshot is read, and while it is on its way commands are committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_committed_during_a_load_are_not_lost() {
    let house = House::new(Setup::default()).await;
    house.truth.loads.shut();
    let (engine, org, event) = (house.engine.clone(), house.stage.org, house.stage.event);
    let loading = tokio::spawn(async move { engine.event(org, event).await.expect("the event") });
    house.truth.loads.reached(1).await;
    let keyed = |who, seats: &[u32]| {
        // With a key, so that the command does not wait for the event to be loaded.
        rowlock_truth::conformance::stage::keyed(house.stage.hold(who, seats), who, 1)
    };
    let ann = house.held(keyed("ann", &[0, 1])).await;
    house.held(keyed("bob", &[2])).await;
    house.engine.execute(house.stage.release("ann", ann.id, &[1])).await.expect("released");
    house.truth.loads.open();
    let live = loading.await.expect("no panic");
    assert_eq!(
        live.read().statuses()[..4],
        [SeatStatus::Held, SeatStatus::Available, SeatStatus::Held, SeatStatus::Available]
    );
    house.close().await;
}

/// A load that takes long gathers facts meanwhile, but not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_load_does_not_gather_facts_for_ever() {
    let house = House::new(Setup::default()).await;
    let hot = HotTier::new(Arc::clone(&house.truth) as Arc<dyn Truth>, None, 10 * LEAST_WEIGHT);
    let stored = house.truth.event(house.stage.event).await.expect("a read").expect("the event");
    house.truth.forget();
    house.truth.loads.shut();
    let fact =
        Fact::SeatsBlocked(rowlock_core::fact::SeatsMarked { event: house.stage.event, seats: vec![] });
    let facts = async {
        house.truth.loads.reached(1).await;
        for more in 1..=100_001 {
            hot.apply(house.stage.event, [(stored.sequence + more, &fact)]);
        }
        house.truth.loads.open();
    };
    let (slow, ()) = futures::future::join(hot.get(house.stage.event), facts).await;
    slow.expect("a read").expect("the event");
    assert!(hot.peek(house.stage.event).is_none(), "it is forgotten");
    let live = hot.get(house.stage.event).await.expect("a read").expect("the event");
    assert_is_as_stored(&live, &*house.truth).await;
    house.close().await;
}

/// One event is loaded again and again, because there is room for one alone, while holds come and go in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loading_while_commands_are_committed_ends_equal() {
    let house = House::with(
        Setup { rows: 30, ..Setup::default() },
        EngineOptions { hot_seats: LEAST_WEIGHT, ..no_sweep() },
    )
    .await;
    let truth = Arc::clone(&house.truth) as Arc<dyn Truth>;
    let other = Stage::in_org(truth, house.stage.org, Setup::default()).await;
    let buyers: Vec<_> = (0..8_u32)
        .map(|buyer| {
            let (engine, stage) = (house.engine.clone(), house.stage.clone());
            tokio::spawn(async move {
                for round in 0..25 {
                    let seat = (buyer * 37 + round) % 300;
                    let reply = engine.execute(stage.hold(&format!("buyer-{buyer}"), &[seat])).await;
                    if let Ok(reply) = reply
                        && round % 3 != 0
                    {
                        let hold = crate::support::hold_of(Ok(reply)).id;
                        let who = format!("buyer-{buyer}");
                        let next = if round % 2 == 0 {
                            stage.release(&who, hold, &[])
                        } else {
                            stage.confirm(&who, hold)
                        };
                        engine.execute(next).await.expect("the hold is ours");
                    }
                }
            })
        })
        .collect();
    let done = join_all(buyers);
    tokio::pin!(done);
    loop {
        tokio::select! {
            buyers = &mut done => {
                buyers.into_iter().for_each(|buyer| buyer.expect("no panic"));
                break;
            }
            _ = house.live_event(other.event) => { house.live().await; }
        }
    }
    assert!(house.truth.loads.came() > 5, "it was loaded again and again");
    let live = house.live().await;
    assert_is_as_stored(&live, &*house.truth).await;
    house.live_event(other.event).await;
    let live = house.live().await;
    assert_is_as_stored(&live, &*house.truth).await;
    house.close().await;
}

/// Those who ask for what does not exist and do not wait for the answer must not push out what does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_while_an_event_loads_leaves_nothing_behind() {
    let house = House::new(Setup::default()).await;
    let truth = || Arc::clone(&house.truth) as Arc<dyn Truth>;
    let hot = Arc::new(HotTier::new(truth(), None, 3 * LEAST_WEIGHT));
    hot.get(house.stage.event).await.expect("a read").expect("the event");
    house.truth.forget();
    house.truth.loads.shut();
    for asked in 1..=5 {
        let unknown = EventId::from_uuid(uuid::Uuid::from_u128(asked as u128));
        let hot = Arc::clone(&hot);
        let asking = tokio::spawn(async move { hot.get(unknown).await.map(drop) });
        house.truth.loads.reached(asked).await;
        asking.abort();
        assert!(asking.await.expect_err("it was given up").is_cancelled());
    }
    house.truth.loads.open();
    assert!(hot.peek(house.stage.event).is_some(), "the event that exists is still there");
    assert_eq!(hot.len(), 1);
    house.close().await;
}
