//! Connections that nobody else can read.

use std::path::{Path, PathBuf};

use rowlock_dev::redis::{RedisCluster, Sentinels};
use rowlock_dev::{address, certificate};
use rowlock_registry::warm::{Claimed, Warm, WarmError, WarmMode, WarmOptions};
use tempfile::TempDir;

use super::support::*;

/// A key and a certificate for all servers of this process.
struct Certificate {
    _folder: TempDir,
    key: PathBuf,
    file: PathBuf,
}

impl Certificate {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key, file) = (folder.path().join("key.pem"), folder.path().join("certificate.pem"));
        certificate::self_signed(address::own_ip().into(), &key, &file).unwrap();
        Self { _folder: folder, key, file }
    }
}

fn options(servers: &Servers, urls: Vec<String>, ca_file: Option<&Path>) -> WarmOptions {
    WarmOptions { urls, ca_file: ca_file.map(Path::to_owned), ..servers.options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_speaks_tls_and_checks_the_certificate() {
    let (servers, certificate) = (Servers::one(), Certificate::new());
    let Servers::One(redis) = &servers else { unreachable!() };
    let urls = vec![redis.speak_tls(&certificate.key, &certificate.file).unwrap()];
    let nobody = Warm::connect(options(&servers, urls.clone(), None)).await.unwrap();
    assert!(!nobody.is_up(), "nobody vouches for the certificate");
    let here = urls[0].replace("rediss://", "laddr=");
    let warm = Warm::connect(options(&servers, urls, Some(&certificate.file))).await.unwrap();
    assert!(warm.is_up());
    assert_eq!(rush(&warm, event(), 1, 50).await, (1, 49));
    let clients = redis.cli(&["CLIENT", "LIST"]).unwrap();
    assert!(clients.contains(&here), "{here} is not among {clients}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_speaks_it_on_every_node() {
    let certificate = Certificate::new();
    let (cluster, urls) = RedisCluster::start_with_tls(&certificate.key, &certificate.file).unwrap();
    let servers = Servers::Cluster(cluster);
    let Servers::Cluster(cluster) = &servers else { unreachable!() };
    let options = options(&servers, urls[..1].to_vec(), Some(&certificate.file));
    // All of them are still there when they are counted.
    let options = WarmOptions { pending: std::time::Duration::from_secs(60), ..options };
    let warm = Warm::connect(options).await.unwrap();
    for number in 0..20 {
        assert_eq!(rush(&warm, super::modes::event_number(number), 1, 10).await, (1, 9));
    }
    for node in cluster.nodes() {
        assert_ne!(node.cli(&["DBSIZE"]).unwrap(), "0", "every node has some of the events");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_speak_it_and_lead_to_servers_that_do() {
    let certificate = Certificate::new();
    let (sentinels, urls) = Sentinels::start_with_tls(&certificate.key, &certificate.file).unwrap();
    let servers = Servers::Sentinels(Box::new(sentinels));
    let Servers::Sentinels(sentinels) = &servers else { unreachable!() };
    let nobody = Warm::connect(options(&servers, urls.clone(), None)).await.unwrap();
    assert!(!nobody.is_up(), "nobody vouches for the certificate");
    let with_tls = options(&servers, urls, Some(&certificate.file));
    let warm = Warm::connect(WarmOptions { breaker: watchful(&servers).breaker, ..with_tls }).await.unwrap();
    assert!(warm.is_up());
    assert_eq!(rush(&warm, event(), 1, 50).await, (1, 49));
    let [master, replica] = sentinels.servers();
    master.kill();
    eventually("the successor", async || matches!(claim(&warm, "bob", &[2]).await, Claimed::Claimed(_)))
        .await;
    assert_eq!(replica.cli(&["EXISTS", &seat_key(2)]).unwrap(), "1");
}

#[tokio::test]
async fn what_would_not_be_secret_is_refused() {
    let (servers, certificate) = (Servers::one(), Certificate::new());
    let Servers::One(redis) = &servers else { unreachable!() };
    let refused = async |options| Warm::connect(options).await.err().expect("a refusal").to_string();
    let plain = options(&servers, vec![redis.url()], Some(&certificate.file));
    assert!(refused(plain).await.contains("rediss://"), "certificates that nobody looks at");
    let mixed = vec![redis.url(), "rediss://127.0.0.1:1".into(), redis.url()];
    let mixed = WarmOptions { mode: WarmMode::Redlock, ..options(&servers, mixed, None) };
    assert!(refused(mixed).await.contains("to all of its servers"));
    for (file, why) in
        [(&certificate.key, "no certificate in it"), (&PathBuf::from("nowhere.pem"), "No such file")]
    {
        let error = Warm::connect(options(&servers, vec!["rediss://127.0.0.1:1".into()], Some(file))).await;
        let Err(error @ WarmError::Certificate { .. }) = error else { panic!("{file:?} was taken") };
        assert!(error.to_string().contains(why), "{error}");
    }
}
