//! What the engine refuses without asking the truth, and what it must not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{House, no_sweep};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use rowlock_core::command::Places;
use rowlock_core::policy::Policy;
use rowlock_core::{BlockId, Command, OrgId, Refusal, Request, Time};
use rowlock_registry::EngineOptions;
use rowlock_truth::conformance::stage::{Setup, keyed};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seat_that_is_known_to_be_taken_is_refused_without_asking() {
    let house = House::new(Setup::default()).await;
    let hold = house.held(house.stage.hold("ann", &[0, 1])).await;
    let asked = house.truth.batches().len();
    let taken = Refusal::SeatsTaken { seats: house.stage.seats(&[1]) };
    assert_eq!(house.refused(house.stage.hold("bob", &[1, 2])).await, taken);
    house.engine.execute(house.stage.confirm("ann", hold.id)).await.expect("a booking");
    assert_eq!(house.refused(house.stage.hold("ann", &[1])).await, taken, "sold");
    assert_eq!(house.truth.batches().len(), asked + 1, "the truth was asked to confirm and nothing else");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_truth_is_asked_where_memory_can_be_wrong() {
    let margin = EngineOptions { refusal_margin: Duration::from_secs(901), ..no_sweep() };
    let house = House::with(Setup::default(), margin).await;
    let hold = house.held(house.stage.hold("ann", &[0])).await;
    let asked = house.truth.batches().len();
    // Its owner may hold it again.
    assert_eq!(house.held(house.stage.hold("ann", &[0])).await.id, hold.id);
    // It ends within the margin.
    let taken = Refusal::SeatsTaken { seats: house.stage.seats(&[0]) };
    assert_eq!(house.refused(house.stage.hold("bob", &[0])).await, taken);
    // A seat that is not there, an event of another org.
    let unknown = Refusal::UnknownSeats { seats: house.stage.seats(&[4_000]) };
    assert_eq!(house.refused(house.stage.hold("bob", &[4_000])).await, unknown);
    let stranger =
        Request { org: OrgId::from_uuid(uuid::Uuid::from_u128(9)), ..house.stage.hold("bob", &[0]) };
    assert_eq!(house.refused(stranger).await, Refusal::UnknownEvent { event: house.stage.event });
    assert_eq!(house.truth.batches().len(), asked + 4);
    house.close().await;
}

/// Each names a seat that is surely taken, and has something else wrong with it that comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_request_itself_is_told_before_what_is_taken() {
    let house = House::new(Setup::default()).await;
    let stage = &house.stage;
    house.held(stage.hold("ann", &[0])).await;
    let asked = house.truth.batches().len();
    let area = (stage.areas[0], 1);
    let in_block =
        Places { blocks: vec![(BlockId::from_uuid(Uuid::nil()), 0)], ..stage.places("bob", &[0], &[]) };
    let wrong = [
        (stage.places("bob", &[0, 0], &[]), "must not name a seat twice"),
        (stage.places("bob", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0], &[]), "must not name a seat twice"),
        (stage.places("bob", &[0], &[area, area]), "must not name an area twice"),
        (stage.places("bob", &[0], &[(area.0, 0)]), "must have quantities between 1 and 1000"),
        (in_block, "must be between 1 and 500"),
    ];
    for (places, expected) in wrong {
        match house.refused(stage.request(Command::Hold(places))).await {
            Refusal::Invalid { rule, .. } => assert_eq!(rule, expected),
            other => panic!("not «{expected}»: {other:?}"),
        }
    }
    let unknown = Refusal::UnknownSeats { seats: stage.seats(&[4_000]) };
    assert_eq!(house.refused(stage.hold("bob", &[0, 4_000])).await, unknown);
    assert_eq!(house.truth.batches().len(), asked + 6, "the truth has said so each time");
    // An area alone is nothing unusual.
    let taken = Refusal::SeatsTaken { seats: stage.seats(&[0]) };
    let with_area = stage.request(Command::Hold(stage.places("bob", &[0, 1], &[area])));
    assert_eq!(house.refused(with_area).await, taken);
    assert_eq!(house.truth.batches().len(), asked + 6);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_answer_wins_over_what_memory_says() {
    let house = House::new(Setup::default()).await;
    let request = || keyed(house.stage.hold("bob", &[0]), "bobs-key", 1);
    let first = house.held(request()).await;
    house.held(house.stage.release("bob", first.id, &[])).await;
    house.held(house.stage.hold("ann", &[0])).await;
    // Without the key it is refused at once; with it the answer is that of then.
    let asked = house.truth.batches().len();
    house.refused(house.stage.hold("bob", &[0])).await;
    assert_eq!(house.truth.batches().len(), asked);
    let again = house.engine.execute(request()).await.expect("the recorded answer");
    assert!(again.replayed);
    assert_eq!(crate::support::hold_of(Ok(again)), first);
    // A key that was never used finds no answer, and the truth refuses.
    let fresh = keyed(house.stage.hold("bob", &[0]), "another-key", 1);
    assert_eq!(house.refused(fresh).await, Refusal::SeatsTaken { seats: house.stage.seats(&[0]) });
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outside_the_sales_window_the_window_is_the_reason() {
    let house = House::new(Setup::default()).await;
    house.held(house.stage.hold("ann", &[0])).await;
    let closes_at = house.engine.now().plus_seconds(3);
    let policy = Policy { sales_close_at: Some(closes_at), ..Policy::default() };
    let truth = Arc::clone(&house.truth) as Arc<dyn rowlock_truth::Truth>;
    let brief = rowlock_truth::conformance::stage::Stage::in_org(
        truth,
        house.stage.org,
        Setup { policy, ..Setup::default() },
    )
    .await;
    house.held(brief.hold("ann", &[0])).await;
    brief.wait_until(closes_at).await;
    let refusal = house.refused(brief.hold("bob", &[0])).await;
    assert_eq!(refusal, Refusal::SalesNotOpen { opens_at: None::<Time>, closes_at: Some(closes_at) });
    house.close().await;
}

/// Counters by name, as a metrics endpoint would have them.
#[derive(Default)]
struct Counters(Mutex<Vec<(String, Arc<AtomicU64>)>>);

impl Counters {
    fn get(&self, name: &str) -> u64 {
        let counters = self.0.lock();
        counters
            .iter()
            .filter(|(known, _)| known == name)
            .map(|(_, count)| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let count = Arc::new(AtomicU64::new(0));
        self.0.lock().push((key.name().to_owned(), Arc::clone(&count)));
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Not a Tokio test: the counters belong to the thread that starts the engine.
#[test]
fn what_is_refused_is_counted_early_or_late() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let counters = Counters::default();
    metrics::with_local_recorder(&counters, || {
        runtime.block_on(async {
            let house = House::new(Setup::default()).await;
            let hold = house.held(house.stage.hold("ann", &[0])).await;
            house.held(house.stage.hold("ann", &[1])).await;
            house.refused(house.stage.hold("bob", &[0])).await;
            house.refused(keyed(house.stage.hold("bob", &[0]), "k", 1)).await;
            house.held(house.stage.checkout("ann", hold.id)).await;
            house.engine.execute(house.stage.confirm("ann", hold.id)).await.expect("a booking");
            house.close().await;
        });
    });
    let count = |name: &str| counters.get(&format!("rowlock_hold_{name}_total"));
    assert_eq!((count("attempts"), count("success")), (4, 2));
    assert_eq!((count("conflicts"), count("early_conflicts")), (2, 1));
    assert_eq!((count("extended"), count("converted"), count("expired")), (1, 1, 0));
}
