//! API keys: looked up for every request, read seldom.

use std::time::{Duration, Instant};

use crate::support::House;
use rowlock_core::org::{ApiKey, Scope};
use rowlock_core::{Command, KeyId, Outcome};
use rowlock_truth::conformance::stage::{Setup, name};
use uuid::Uuid;

/// On a truth that is shared, where others may revoke keys.
async fn house() -> (House, ApiKey) {
    let house = House::believing(Setup::default()).await;
    let scopes = [Scope::Hold].into_iter().collect();
    let create = Command::CreateApiKey { name: name("shop"), scopes, secret_hash: [7; 32] };
    let reply = house.engine.execute(house.stage.request(create)).await.expect("a key");
    let Outcome::ApiKey(key) = reply.outcome else { panic!("not a key") };
    (house, *key)
}

type Looking = tokio::task::JoinHandle<Option<ApiKey>>;

fn look(house: &House, id: KeyId) -> Looking {
    let engine = house.engine.clone();
    tokio::spawn(async move { engine.api_key(id).await.expect("an answer") })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_come_with_one_key_share_one_look() {
    let (house, key) = house().await;
    house.truth.keys.shut();
    let looking: Vec<Looking> = (0..50).map(|_| look(&house, key.id)).collect();
    house.truth.keys.reached(1).await;
    // More than enough for the others to come as well.
    tokio::time::sleep(Duration::from_millis(200)).await;
    house.truth.keys.open();
    for found in looking {
        assert_eq!(found.await.expect("no panic").expect("the key").id, key.id);
    }
    assert_eq!(look(&house, key.id).await.expect("no panic").expect("the key").id, key.id);
    assert_eq!(house.truth.keys.came(), 1);
    house.close().await;
}

/// Whoever tries keys that do not exist waits for others who do, and not before who comes with one that is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_keys_wait_for_each_other() {
    let (house, key) = house().await;
    look(&house, key.id).await.expect("no panic").expect("the key");
    house.truth.forget();
    house.truth.keys.shut();
    let unknown = |number| KeyId::from_uuid(Uuid::from_u128(number));
    let made_up: Vec<Looking> = (0..50).map(|number| look(&house, unknown(number))).collect();
    house.truth.keys.reached(1).await;
    // More than enough for the others to come as well.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(house.truth.keys.came(), 1);
    // Some seconds old by now and read again, though the first of the others is not answered.
    let mut looking = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while house.truth.keys.came() < 2 {
        assert!(Instant::now() < end, "the known key is not read again");
        looking.push(look(&house, key.id));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.truth.keys.open();
    for found in looking {
        assert_eq!(found.await.expect("no panic").expect("the key").id, key.id);
    }
    for found in made_up {
        // Those that waited for too long were refused, which ends their task with a panic.
        assert!(!matches!(found.await, Ok(Some(_))));
    }
    house.close().await;
}
