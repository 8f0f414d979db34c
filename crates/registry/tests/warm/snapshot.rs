//! Rebuilding an event in Redis, and loading it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rowlock_registry::warm::{Applied, Warm, WarmHeld, WarmOptions};

use super::projection::Book;
use super::support::*;

#[tokio::test]
async fn what_is_saved_is_what_is_loaded_in_every_mode() {
    for servers in [Servers::one(), Servers::cluster(0), Servers::redlock()] {
        let warm = servers.connect().await;
        let mut book = Book::new().await;
        let mut random = StdRng::seed_from_u64(3);
        for _ in 0..40 {
            let requests = (0..5).map(|_| book.any(&mut random)).collect();
            book.commit(requests).await;
        }
        assert_eq!(book.loaded(&warm).await, None);
        let stored = book.stored().await;
        warm.save(book.stage.org, &stored, book.now()).await.unwrap();
        assert_eq!(book.loaded(&warm).await, Some(stored));
        book.assert_claims(&warm).await;
        let new = book.commit(vec![book.stage.hold("ada", &[100, 101])]).await;
        let applied = book.apply(&warm, &new).await;
        assert_eq!(applied, Applied::Current(book.stored().await.sequence));
        assert_eq!(book.loaded(&warm).await, Some(book.stored().await));
    }
}

#[tokio::test]
async fn facts_committed_during_a_rebuild_are_in_it() {
    let (servers, warm) = one().await;
    let mut book = Book::new().await;
    let mut random = StdRng::seed_from_u64(5);
    for round in 0..10 {
        servers.redis().cli(&["FLUSHALL"]).unwrap();
        let requests = (0..20).map(|_| book.any(&mut random)).collect();
        book.commit(requests).await;
        let old = book.stored().await;
        for _ in 0..30 {
            let requests = (0..5).map(|_| book.any(&mut random)).collect();
            let new = book.commit(requests).await;
            if !new.is_empty() {
                assert_eq!(book.apply(&warm, &new).await, Applied::Missing);
            }
        }
        warm.save(book.stage.org, &old, book.now()).await.unwrap();
        assert_eq!(book.loaded(&warm).await, Some(book.stored().await), "round {round}");
        book.assert_claims(&warm).await;
    }
}

#[tokio::test]
async fn an_older_state_does_not_replace_a_newer_one() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    let old = book.stored().await;
    book.commit(vec![book.stage.hold("ada", &[1])]).await;
    let new = book.stored().await;
    warm.save(book.stage.org, &new, book.now()).await.unwrap();
    warm.save(book.stage.org, &old, book.now()).await.unwrap();
    assert_eq!(book.loaded(&warm).await, Some(new));
    warm.forget(book.stage.org, book.stage.event).await.unwrap();
    assert_eq!(book.loaded(&warm).await, None);
    warm.save(book.stage.org, &old, book.now()).await.unwrap();
    assert_eq!(book.loaded(&warm).await, Some(old));
}

/// Two nodes write the same event, and the slower one has the older state.
#[tokio::test]
async fn an_older_state_brings_no_claims_back() {
    for servers in [Servers::one(), Servers::redlock()] {
        let warm = servers.connect().await;
        let mut book = Book::new().await;
        book.commit(vec![book.stage.hold("ada", &[1, 2]), book.stage.hold("bob", &[3])]).await;
        let old = book.stored().await;
        let hold = old.held.iter().find(|held| held.ordinal == 1).unwrap().hold;
        book.commit(vec![book.stage.release("ada", hold, &[])]).await;
        warm.save(book.stage.org, &book.stored().await, book.now()).await.unwrap();
        book.assert_claims(&warm).await;
        warm.save(book.stage.org, &old, book.now()).await.unwrap();
        book.assert_claims(&warm).await;
    }
}

#[tokio::test]
async fn a_rebuild_ends_the_claims_of_what_has_ended_in_the_outage() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.commit(vec![book.stage.hold("ada", &[1, 2]), book.stage.hold("bob", &[3])]).await;
    let stored = book.stored().await;
    warm.save(book.stage.org, &stored, book.now()).await.unwrap();
    // Redis hears of none of these.
    book.commit(vec![book.stage.release("ada", stored.held[0].hold, &[1])]).await;
    book.commit(vec![book.stage.confirm("bob", stored.held[2].hold)]).await;
    book.commit(vec![book.stage.hold("eve", &[1])]).await;
    warm.save(book.stage.org, &book.stored().await, book.now()).await.unwrap();
    book.assert_claims(&warm).await;
    assert_eq!(book.loaded(&warm).await, Some(book.stored().await));
}

#[tokio::test]
async fn a_copy_that_contradicts_itself_is_not_loaded_and_goes_away() {
    let (servers, warm) = one().await;
    let book = Book::new().await;
    let stored = book.stored().await;
    let key = |name: &str| format!("rowlock:org:{}:event:{{{}}}:{name}", book.stage.org, book.stage.event);
    let spoil: [&[&str]; 4] = [
        &["SETBIT", &key("availability"), "3", "0"],
        &["SETBIT", &key("availability"), "100000", "1"],
        &["SETBIT", &key("sold"), "3", "1"],
        &["HINCRBY", &key("occupancy"), "held", "1"],
    ];
    for command in spoil {
        warm.save(book.stage.org, &stored, book.now()).await.unwrap();
        assert_eq!(book.loaded(&warm).await.as_ref(), Some(&stored));
        servers.redis().cli(command).unwrap();
        assert_eq!(book.loaded(&warm).await, None, "{command:?}");
        assert_eq!(servers.redis().cli(&["EXISTS", &key("occupancy")]).unwrap(), "0");
    }
}

#[tokio::test]
async fn claims_live_as_long_as_their_holds_and_a_minute() {
    let (servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    let held = book.stage.hold("ada", &[1]);
    let new = book.commit(vec![held]).await;
    book.apply(&warm, &new).await;
    let key =
        format!("rowlock:org:{}:event:{{{}}}:seat:{}", book.stage.org, book.stage.event, book.stage.seat(1));
    let lives = |key: &str| servers.redis().cli(&["PTTL", key]).unwrap().parse::<i64>().unwrap();
    let until = book.stored().await.held[0].until;
    let expected = until.millis_since(book.now()) + 60_000;
    assert!((expected - 5_000..=expected + 5_000).contains(&lives(&key)), "{} {expected}", lives(&key));
    let hold = book.stored().await.held[0].hold;
    let new = book.commit(vec![book.stage.checkout("ada", hold)]).await;
    book.apply(&warm, &new).await;
    assert!(book.stored().await.held[0].until > until);
    let expected = book.stored().await.held[0].until.millis_since(book.now()) + 60_000;
    assert!((expected - 5_000..=expected + 5_000).contains(&lives(&key)), "an extension moves it");
}

#[tokio::test]
async fn an_event_that_nobody_changes_leaves_redis() {
    let servers = Servers::one();
    let keep = std::time::Duration::from_millis(300);
    let warm = Warm::connect(WarmOptions { keep, ..servers.options() }).await.unwrap();
    let book = Book::new().await;
    assert!(matches!(book.apply(&warm, &book.facts).await, Applied::Current(_)));
    warm.save_layout(book.stage.org, book.stage.event, 1, b"layout").await.unwrap();
    eventually("an empty Redis", async || servers.redis().cli(&["DBSIZE"]).unwrap() == "0").await;
}

#[tokio::test]
async fn a_layout_is_kept_as_it_is() {
    let (_servers, warm) = one().await;
    assert_eq!(warm.load_layout(org(), event()).await, Ok(None));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    warm.save_layout(org(), event(), 42, &bytes).await.unwrap();
    assert_eq!(warm.load_layout(org(), event()).await, Ok(Some((42, bytes))));
}

#[tokio::test]
async fn many_holds_are_saved_in_parts() {
    let (_servers, warm) = one().await;
    let mut book = Book::new().await;
    book.commit(vec![]).await;
    let mut stored = book.stored().await;
    stored.seats = 20_000;
    stored.free = vec![0; 20_000_usize.div_ceil(64)];
    stored.sold = stored.free.clone();
    let until = book.now().plus_seconds(600);
    let held = |ordinal| WarmHeld { ordinal, hold: hold_id(u128::from(ordinal)), user: user("ada"), until };
    stored.held = (0..20_000).map(held).collect();
    warm.save(book.stage.org, &stored, book.now()).await.unwrap();
    assert_eq!(book.loaded(&warm).await, Some(stored));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_different_sequences_are_never_put_together() {
    let (_servers, warm) = one().await;
    let book = Book::new().await;
    let mut stored = book.stored().await;
    stored.seats = 30_000;
    stored.free = vec![0; 30_000_usize.div_ceil(64)];
    stored.sold = stored.free.clone();
    let (now, org) = (book.now(), book.stage.org);
    let held = |ordinal| WarmHeld {
        ordinal,
        hold: hold_id(u128::from(ordinal)),
        user: user("ada"),
        until: now.plus_seconds(600 + ordinal),
    };
    stored.held = (0..30_000).map(held).collect();
    warm.save(org, &stored, now).await.unwrap();
    let sequence = stored.sequence;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let seen = Arc::new(AtomicU32::new(0));
    let loading = tokio::spawn({
        let (warm, seen) = (warm.clone(), Arc::clone(&seen));
        async move {
            while stopped.try_recv().is_err() {
                let Some(found) = warm.load(org, stored.event).await.unwrap() else { continue };
                // Each fact has moved one hold by half a second, where it was: nothing else tells the parts apart.
                let moved = |held: &&WarmHeld| held.until.millis_since(now) % 1000 == 500;
                let moved = found.held.iter().filter(moved).count();
                assert_eq!((moved as u64, found.held.len()), (found.sequence - sequence, 30_000));
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for i in 0..400_u32 {
        // Those at the end, which are read last.
        let held = held(29_999 - i);
        let moved = rowlock_core::fact::HoldMoved {
            hold: held.hold,
            event: book.stage.event,
            user: held.user,
            seats: vec![rowlock_core::hold::HeldSeat { ordinal: held.ordinal, price: 1 }],
            previous_expires_at: held.until,
            expires_at: held.until.plus_millis(500),
            checkout_at: None,
        };
        let fact = (sequence + 1 + u64::from(i), rowlock_core::Fact::HoldExtended(moved));
        let applied = book.apply(&warm, &[fact]).await;
        assert_eq!(applied, Applied::Current(sequence + 1 + u64::from(i)), "nobody took it for wrong");
        // It must be read whole now and then, or nothing is compared.
        if i % 100 == 99 {
            let before = seen.load(Ordering::Relaxed);
            eventually("a whole read", async || seen.load(Ordering::Relaxed) > before).await;
        }
    }
    stop.send(()).unwrap();
    loading.await.unwrap();
    let found = book.loaded(&warm).await.expect("nothing changes any more");
    assert_eq!((found.sequence, found.held.len()), (sequence + 400, 30_000));
}

/// Otherwise it would be gone after a day of sales, and the rest of the event would seem to be missing.
#[tokio::test]
async fn a_layout_lives_as_long_as_what_changes() {
    let (servers, warm) = one().await;
    let mut book = Book::new().await;
    book.apply(&warm, &book.facts).await;
    warm.save_layout(book.stage.org, book.stage.event, 1, b"layout").await.unwrap();
    let key = format!("rowlock:org:{}:event:{{{}}}:layout", book.stage.org, book.stage.event);
    let lives = || servers.redis().cli(&["PTTL", &key]).unwrap().parse::<i64>().unwrap();
    let begin = lives();
    servers.redis().cli(&["PEXPIRE", &key, "60000"]).unwrap();
    let new = book.commit(vec![book.stage.hold("ada", &[1])]).await;
    book.apply(&warm, &new).await;
    assert!(begin - lives() < 60_000, "{begin} {}", lives());
}
