//! Claims on one server.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::policy::Policy;
use rowlock_core::{CartToken, Command, Refusal, Request, Time};
use rowlock_registry::warm::{Claim, Claimed, Receipt, Warm, WarmOptions};
use rowlock_registry::{Engine, Failure};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::Setup;

use super::support::*;
use crate::support::{House, no_sweep};

#[tokio::test]
async fn all_of_the_seats_or_none() {
    let (servers, warm) = one().await;
    let first = claimed(claim(&warm, "ada", &[1, 2]).await);
    assert_eq!(first.seats, seats([1, 2]));
    let owners = taken(claim(&warm, "bob", &[2, 3]).await);
    assert_eq!(owners.iter().map(|(seat, _)| *seat).collect::<Vec<_>>(), seats([2]));
    let owner = &owners[0].1;
    assert_eq!((owner.user.clone(), owner.pending, owner.hold), (Some(user("ada")), true, None));
    let lives = owner.expires_at.unwrap().millis_since(owner.held_at.unwrap());
    assert_eq!(lives, 5000);
    assert_eq!(
        servers.redis().cli(&["EXISTS", &seat_key(3)]).unwrap(),
        "0",
        "nothing of a refused claim stays"
    );
    claimed(claim(&warm, "bob", &[3]).await);
}

#[tokio::test]
async fn claims_in_one_message_do_not_touch_each_other() {
    let (servers, warm) = one().await;
    claimed(claim(&warm, "ada", &[1]).await);
    let (bob, eve, cart) = (user("bob"), user("eve"), CartToken::unnamed());
    let wanted = [
        (&bob, seats([1])),
        (&bob, seats([2])),
        (&eve, seats([2])),
        (&eve, seats([1, 3])),
        (&eve, seats([4, 5])),
    ];
    let of = |(user, seats)| Claim { org: org(), event: event(), user, cart: &cart, seats };
    let claims: Vec<Claim<'_>> = wanted.iter().map(|(user, seats)| of((*user, &seats[..]))).collect();
    let answers: [Claimed; 5] = warm.claim_together(&claims).await.try_into().expect("an answer each");
    let [hers, his, late, half, both] = answers;
    assert!(matches!(hers, Claimed::Taken(_)), "ada had it before");
    assert_eq!(claimed(his).seats, seats([2]));
    assert!(matches!(late, Claimed::Taken(_)), "bob's came first");
    assert_eq!(taken(half).len(), 1);
    assert_eq!(servers.redis().cli(&["EXISTS", &seat_key(3)]).unwrap(), "0", "all or none");
    let both = claimed(both);
    assert_eq!(both.seats, seats([4, 5]));
    warm.release(&both).await.unwrap();
    assert_eq!(servers.redis().cli(&["EXISTS", &seat_key(4), &seat_key(2)]).unwrap(), "1", "bob's stays");
}

#[tokio::test]
async fn the_same_user_is_no_rival_of_theirs() {
    let (_servers, warm) = one().await;
    let first = claimed(claim(&warm, "a:\"d\\a", &[1, 2]).await);
    let second = claimed(claim(&warm, "a:\"d\\a", &[2, 3]).await);
    assert_eq!(second.seats, seats([3]), "what they had stays as it was");
    warm.release(&second).await.unwrap();
    assert_eq!(taken(claim(&warm, "bob", &[1, 2, 3]).await).len(), 2);
    warm.release(&first).await.unwrap();
    claimed(claim(&warm, "bob", &[1, 2, 3]).await);
}

#[tokio::test]
async fn a_claim_that_nobody_confirms_ends_by_itself() {
    let servers = Servers::one();
    let options = WarmOptions { pending: Duration::from_secs(2), ..servers.options() };
    let warm = Warm::connect(options).await.unwrap();
    claimed(claim(&warm, "ada", &[1]).await);
    taken(claim(&warm, "bob", &[1]).await);
    eventually("the end of the claim", async || {
        matches!(claim(&warm, "bob", &[1]).await, Claimed::Claimed(_))
    })
    .await;
}

/// Ada's claim has ended and bob has the seat. Whose is it after ada's claim was given back?
async fn owner_after(give_back: impl AsyncFnOnce(&Servers, &Warm, Receipt)) -> Claimed {
    let servers = Servers::one();
    let options = WarmOptions { pending: Duration::from_millis(100), ..servers.options() };
    let brief = Warm::connect(options).await.unwrap();
    let old = claimed(claim(&brief, "ada", &[1]).await);
    let key = seat_key(1);
    eventually("the end of the claim", async || servers.redis().cli(&["EXISTS", &key]).unwrap() == "0").await;
    let warm = servers.connect().await;
    claimed(claim(&warm, "bob", &[1]).await);
    give_back(&servers, &warm, old).await;
    claim(&warm, "eve", &[1]).await
}

#[tokio::test]
async fn only_the_owner_gives_a_claim_back() {
    let answer = owner_after(async |_, warm, old| {
        warm.release_all(&[old.clone(), old]).await.unwrap();
    });
    assert_eq!(taken(answer.await)[0].1.user, Some(user("bob")), "bob's is still his");
}

/// What the test above would see if releasing did not look whose the claim is.
#[tokio::test]
async fn without_that_check_somebody_elses_claim_is_lost() {
    let answer = owner_after(async |servers: &Servers, _, _| {
        servers.redis().cli(&["DEL", &seat_key(1)]).unwrap();
    });
    claimed(answer.await);
}

#[tokio::test]
async fn a_stale_claim_is_healed_only_as_it_was_seen() {
    let (servers, warm) = one().await;
    let receipt = claimed(claim(&warm, "ada", &[1, 2]).await);
    let seen = taken(claim(&warm, "bob", &[1, 2]).await);
    warm.release(&receipt).await.unwrap();
    claimed(claim(&warm, "eve", &[2]).await);
    servers.redis().cli(&["SET", &seat_key(3), "nonsense"]).unwrap();
    warm.heal(org(), event(), &seen).await.unwrap();
    let left = taken(claim(&warm, "bob", &[1, 2, 3]).await);
    assert_eq!(left.iter().map(|(seat, _)| *seat).collect::<Vec<_>>(), seats([2, 3]));
    warm.heal(org(), event(), &left[1..]).await.unwrap();
    claimed(claim(&warm, "bob", &[1, 3]).await);
}

/// Somebody has claimed the first seat through another node, so that only Redis knows.
async fn engine_beside_a_claim(house: &House, warm: &Warm) -> Engine {
    let truth = Arc::clone(&house.truth) as Arc<dyn Truth>;
    let engine = Engine::start_with(truth, Some(warm.clone()), no_sweep()).await.expect("an engine");
    let stage = &house.stage;
    let (ada, cart, seats) = (user("ada"), CartToken::unnamed(), stage.seats(&[0]));
    let claim = Claim { org: stage.org, event: stage.event, user: &ada, cart: &cart, seats: &seats };
    claimed(warm.claim(&claim).await);
    engine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_request_itself_is_told_before_whose_the_seats_are() {
    let house = House::new(Setup::default()).await;
    let (_servers, warm) = one().await;
    let engine = engine_beside_a_claim(&house, &warm).await;
    let (stage, cart, seats) = (&house.stage, CartToken::unnamed(), house.stage.seats(&[0]));
    let refused = async |request| match engine.execute(request).await {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(refused(stage.hold("bob", &[0])).await, Refusal::SeatsTaken { seats });
    let booked = |seats| Command::Book { places: stage.places("bob", seats, &[]), payment_reference: None };
    for command in [Command::Hold(stage.places("bob", &[0, 0], &[])), booked(&[0, 0])] {
        let refusal = refused(stage.request(command)).await;
        assert!(matches!(&refusal, Refusal::Invalid { rule, .. } if rule.contains("twice")), "{refusal:?}");
    }
    let unknown = Refusal::UnknownSeats { seats: stage.seats(&[4_000]) };
    assert_eq!(refused(stage.hold("bob", &[0, 4_000])).await, unknown);
    assert_eq!(refused(stage.request(booked(&[0, 4_000]))).await, unknown);
    // Another org has claims of its own, and yet no such event.
    let stranger = |who| Request { org: org(), ..stage.hold(who, &[0]) };
    let (ben, seats) = (user("ben"), stage.seats(&[0]));
    claimed(
        warm.claim(&Claim { org: org(), event: stage.event, user: &ben, cart: &cart, seats: &seats }).await,
    );
    let nothing = Refusal::UnknownEvent { event: stage.event };
    assert_eq!(refused(stranger("bob")).await, nothing);
    engine.stop().await;
}

/// Before sales open nobody is told that seats are taken: in a rush all come at once, and each would meet the claims of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_sales_open_nobody_claims() {
    let opens_at = Some(Time::from_millis(4_000_000_000_000));
    let policy = Policy { sales_open_at: opens_at, ..Policy::default() };
    let house = House::new(Setup { policy, ..Setup::default() }).await;
    let (_servers, warm) = one().await;
    let engine = engine_beside_a_claim(&house, &warm).await;
    let stage = &house.stage;
    let booked = Command::Book { places: stage.places("bob", &[0], &[]), payment_reference: None };
    for request in [stage.hold("bob", &[0]), stage.request(booked)] {
        match engine.execute(request).await {
            Err(Failure::Refused(Refusal::SalesNotOpen { .. })) => {}
            other => panic!("not refused for the time: {other:?}"),
        }
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_one_gets_the_seat() {
    let (_servers, warm) = one().await;
    for round in 0..10 {
        assert_eq!(rush(&warm, event(), round, 200).await, (1, 199));
    }
}

#[tokio::test]
async fn scripts_and_keys_may_be_flushed_at_any_time() {
    let (servers, warm) = one().await;
    let receipt = claimed(claim(&warm, "ada", &[1]).await);
    servers.redis().cli(&["SCRIPT", "FLUSH"]).unwrap();
    taken(claim(&warm, "bob", &[1]).await);
    servers.redis().cli(&["SCRIPT", "FLUSH"]).unwrap();
    warm.release_all(&[receipt.clone(), receipt.clone(), receipt]).await.unwrap();
    claimed(claim(&warm, "bob", &[1]).await);
    servers.redis().cli(&["FLUSHALL"]).unwrap();
    claimed(claim(&warm, "ada", &[1]).await);
    servers.redis().restart_empty().unwrap();
    eventually("a new connection", async || matches!(claim(&warm, "eve", &[1]).await, Claimed::Claimed(_)))
        .await;
}

#[tokio::test]
async fn a_claim_of_no_seats_needs_no_redis() {
    let (servers, warm) = one().await;
    servers.redis().kill();
    let receipt = claimed(claim(&warm, "ada", &[]).await);
    warm.release(&receipt).await.unwrap();
}

/// Redis carries out what it was sent, though nobody waits for its answer any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_came_too_late_is_given_back() {
    let policy = Policy { seats_per_user: Some(1), ..Policy::default() };
    let house = House::new(Setup { policy, ..Setup::default() }).await;
    let servers = Servers::one();
    let options = WarmOptions { pending: Duration::from_secs(600), ..hasty(&servers) };
    let warm = Warm::connect(options).await.expect("a connection");
    let truth = Arc::clone(&house.truth) as Arc<dyn Truth>;
    let engine = Engine::start_with(truth, Some(warm), no_sweep()).await.expect("an engine");
    let stage = &house.stage;
    engine.execute(stage.hold("bob", &[0])).await.expect("a hold");
    servers.redis().pause();
    match engine.execute(stage.hold("bob", &[1])).await {
        Err(Failure::Refused(Refusal::TooManySeats { .. })) => {}
        other => panic!("not refused: {other:?}"),
    }
    servers.redis().resume();
    let key = format!("rowlock:org:{}:event:{{{}}}:seat:{}", stage.org, stage.event, stage.seat(1));
    // Behind the claim on the same connection, so the claim has been carried out by then.
    engine.execute(stage.hold("eve", &[2])).await.expect("a hold");
    eventually("it is given back", async || servers.redis().cli(&["EXISTS", &key]).unwrap() == "0").await;
    engine.stop().await;
}
