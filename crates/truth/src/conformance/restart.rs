//! What was acknowledged is there after a restart.

use rowlock_core::{Command, Stream};

use super::Backend;
use super::stage::{Setup, Stage, user};

pub async fn everything_is_kept<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let places = stage.places("ann", &[0, 1], &[(stage.areas[0], 2)]);
    let active = stage.held(stage.request(Command::Hold(places))).await;
    stage.held(stage.checkout("ann", active.id)).await;
    let sold = stage.held(stage.hold("bob", &[2, 3])).await;
    let booking = stage.booked(stage.confirm("bob", sold.id)).await;
    let gone = stage.held(stage.hold("cid", &[4])).await;
    stage.held(stage.release("cid", gone.id, &[])).await;
    let block = Command::BlockSeats { event: stage.event, seats: stage.seats(&[5]) };
    stage.one(stage.request(block)).await.expect("blocked");

    let before = everything(&stage, &[active.id, sold.id, gone.id], booking.id).await;
    stage.truth.close().await;
    let stage = Stage { truth: backend.open().await, ..stage };
    let after = everything(&stage, &[active.id, sold.id, gone.id], booking.id).await;
    assert_eq!(before, after);
    assert_eq!(&stage.map().await[..7], "hhSS.x.");

    // It goes on where it stopped: the next fact has the next number.
    let last = stage.truth.event(stage.event).await.expect("a read").expect("the event").sequence;
    let next = stage.one(stage.hold("dan", &[6])).await.expect("a hold");
    assert_eq!(next.facts[0].0, last + 1);
    stage.booked(stage.confirm("ann", active.id)).await;
    stage.assert_clean().await;
}

/// All that the truth can be asked, as text.
async fn everything(
    stage: &Stage,
    holds: &[rowlock_core::HoldId],
    booking: rowlock_core::BookingId,
) -> Vec<String> {
    let truth = &stage.truth;
    let mut all = vec![
        format!("{:?}", truth.org(stage.org).await),
        format!("{:?}", truth.orgs(None, 100).await),
        format!("{:?}", truth.events(stage.org, None, 100).await),
        format!("{:?}", truth.event(stage.event).await),
        format!("{:?}", truth.booking(booking).await),
        format!("{:?}", truth.holds_of_user(stage.org, user("ann"), None, 100).await),
        format!("{:?}", truth.journal(Stream::Event(stage.event), 0, 1_000).await),
        format!("{:?}", truth.journal(Stream::Org(stage.org), 0, 1_000).await),
        format!("{:?}", truth.active_holds().await),
    ];
    for hold in holds {
        all.push(format!("{:?}", truth.hold(*hold).await));
    }
    assert!(all.iter().all(|read| read.starts_with("Ok(")), "{all:#?}");
    all
}
