//! Doing what the schedule says.

use std::sync::Arc;
use std::time::Duration;

use super::history::Recorder;
use super::house::House;
use super::proxy::Mode;
use super::schedule::Fault;
use super::seat::Time;
use super::{Failed, blocking};
use futures::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Times that Postgres is started after it was killed.
const START_TRIES: usize = 20;
const START_PAUSE: Duration = Duration::from_millis(300);

/// A fault that happened, and when it was over: everything runs again then, if slowly.
#[derive(Clone, Debug)]
pub struct Inflicted {
    pub fault: Fault,
    pub began: Time,
    pub healed: Time,
}

/// Does it and undoes it. What it says is a promise that was broken by it.
pub async fn inflict(
    house: &Arc<House>,
    fault: Fault,
    recorder: &Recorder,
    broken: &mut Vec<String>,
) -> Result<Inflicted, Failed> {
    let began = recorder.clock.now();
    match fault {
        Fault::KillNode { node, down } => {
            blocking(house, move |house| house.nodes[node].kill()).await?;
            tokio::time::sleep(down).await;
            blocking(house, move |house| house.nodes[node].start()).await?;
        }
        Fault::PauseNode { node, time } => {
            house.nodes[node].pause();
            tokio::time::sleep(time).await;
            house.nodes[node].resume();
        }
        Fault::SkewNode { node, seconds } => {
            blocking(house, move |house| house.nodes[node].kill()).await?;
            house.nodes[node].set_skew(Some(seconds));
            blocking(house, move |house| house.nodes[node].start()).await?;
        }
        Fault::StopAll => {
            let stops = (0..house.nodes.len()).map(|node| blocking(house, move |h| h.nodes[node].stop()));
            broken.extend(join_all(stops).await.into_iter().filter_map(Result::err));
            house.nodes.iter().for_each(|node| node.set_skew(None));
            let starts = (0..house.nodes.len()).map(|node| blocking(house, move |h| h.nodes[node].start()));
            join_all(starts).await.into_iter().collect::<Result<(), Failed>>()?;
        }
        Fault::Cut { node, link, mode, time } => {
            house.nodes[node].cut(link, mode);
            tokio::time::sleep(time).await;
            house.nodes[node].cut(link, Mode::Pass);
        }
        Fault::PauseRedis { time } => {
            house.shared().redis.pause();
            tokio::time::sleep(time).await;
            house.shared().redis.resume();
        }
        Fault::FlushRedis => drop(blocking(house, |house| house.shared().redis.cli(&["FLUSHALL"])).await?),
        Fault::FlushScripts => {
            drop(blocking(house, |house| house.shared().redis.cli(&["SCRIPT", "FLUSH"])).await?)
        }
        Fault::RestartRedis { down } => {
            blocking(house, |house| house.shared().redis.kill()).await;
            tokio::time::sleep(down).await;
            blocking(house, |house| house.shared().redis.start_again()).await?;
        }
        Fault::PausePostgres { time } => {
            signal_postgres(house, Signal::SIGSTOP);
            tokio::time::sleep(time).await;
            signal_postgres(house, Signal::SIGCONT);
        }
        Fault::KillPostgres { down } => {
            // The first process too, and at once: nobody is left to tell the others to tidy up.
            signal_postgres(house, Signal::SIGKILL);
            blocking(house, |house| house.shared().postgres.stop_at_once()).await;
            tokio::time::sleep(down.max(Duration::from_millis(100))).await;
            blocking(house, start_postgres).await?;
        }
    }
    Ok(Inflicted { fault, began, healed: recorder.clock.now() })
}

/// A process of the old one may take a moment to notice that it is alone, and until then there can be no new one.
fn start_postgres(house: &House) -> Result<(), Failed> {
    for _ in 0..START_TRIES {
        if house.shared().postgres.start_again().is_ok() {
            return Ok(());
        }
        std::thread::sleep(START_PAUSE);
    }
    Ok(house.shared().postgres.start_again()?)
}

fn signal_postgres(house: &House, signal: Signal) {
    for pid in house.shared().postgres.pids() {
        // One that has ended meanwhile needs no signal.
        let _ = kill(Pid::from_raw(pid as i32), signal);
    }
}
