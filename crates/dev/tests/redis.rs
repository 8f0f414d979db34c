use std::time::Duration;

use rowlock_dev::redis::{Redis, RedisCluster, Sentinels};
use rowlock_dev::wait_until;

const LONG: Duration = Duration::from_secs(30);

#[test]
fn it_is_empty_after_it_was_killed() {
    let server = Redis::start_with(&["maxmemory 10mb"]).unwrap();
    assert_eq!(server.cli(&["CONFIG", "GET", "maxmemory"]).unwrap(), "maxmemory\n10485760");
    server.cli(&["SET", "a", "1"]).unwrap();
    server.kill();
    assert!(server.cli(&["GET", "a"]).is_err());
    assert_eq!(server.pid(), None);
    server.start_again().unwrap();
    assert_eq!(server.cli(&["EXISTS", "a"]).unwrap(), "0");
    let pid = server.pid();
    server.restart_empty().unwrap();
    assert_ne!(server.pid(), pid);
}

#[test]
fn an_error_of_redis_is_an_error() {
    let server = Redis::start().unwrap();
    assert!(server.cli(&["NONSENSE"]).is_err());
}

#[test]
fn a_cluster_has_all_slots_and_fails_over() {
    let cluster = RedisCluster::start(1).unwrap();
    let asked = &cluster.nodes()[0];
    let key = ["a", "b", "c", "d", "e", "f"]
        .into_iter()
        .find(|key| cluster.master_of(asked, key).unwrap().address() != asked.address())
        .unwrap();
    let master = cluster.master_of(asked, key).unwrap().address();
    cluster.nodes().iter().find(|node| node.address() == master).unwrap().kill();
    let moved = || cluster.master_of(asked, key).is_some_and(|now| now.address() != master);
    assert!(wait_until(LONG, moved));
}

#[test]
fn sentinels_promote_the_replica() {
    let sentinels = Sentinels::start().unwrap();
    let [master, replica] = sentinels.servers();
    assert_eq!(sentinels.master(), Some(master.address()));
    master.kill();
    assert!(wait_until(LONG, || sentinels.master() == Some(replica.address())));
    assert!(wait_until(LONG, || replica.cli(&["SET", "a", "1"]).is_ok()));
}
