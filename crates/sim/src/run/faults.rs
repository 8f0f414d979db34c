//! What goes wrong, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::net::{Place, Weather};
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node dies at once.
    Crash,
    /// A node dies at one of its next messages.
    CrashAtStep,
    /// A node is stopped as it should be, and started again.
    Stop,
    /// A node stands still and goes on.
    NodePause,
    /// A node's idea of the time jumps.
    ClockJump,
    /// A node and the store can't reach each other.
    CutStore,
    /// A node and a Redis can't reach each other.
    CutRedis,
    /// A node can reach nothing.
    Isolate,
    /// The store stands still and goes on.
    StorePause,
    /// The store ends all transactions and connections.
    StoreRestart,
    /// The same in the middle of the next commit.
    StoreRestartAtCommit,
    /// The network loses, delays and repeats for a while.
    Weather,
    /// The network loses answers for a while.
    LostAnswers,
    RedisPause,
    RedisFlush,
    RedisRestart,
    RedisLosesKeys,
    ScriptFlush,
}

impl Fault {
    pub const ALL: [Fault; 18] = [
        Fault::Crash,
        Fault::CrashAtStep,
        Fault::Stop,
        Fault::NodePause,
        Fault::ClockJump,
        Fault::CutStore,
        Fault::CutRedis,
        Fault::Isolate,
        Fault::StorePause,
        Fault::StoreRestart,
        Fault::StoreRestartAtCommit,
        Fault::Weather,
        Fault::LostAnswers,
        Fault::RedisPause,
        Fault::RedisFlush,
        Fault::RedisRestart,
        Fault::RedisLosesKeys,
        Fault::ScriptFlush,
    ];

    /// Whether it goes on for a while, and ends with the storm.
    fn lasts(self) -> bool {
        matches!(
            self,
            Fault::NodePause
                | Fault::CutStore
                | Fault::CutRedis
                | Fault::Isolate
                | Fault::StorePause
                | Fault::Weather
                | Fault::LostAnswers
                | Fault::RedisPause
        )
    }

    /// As it is counted.
    pub fn name(self) -> String {
        format!("fault: {self:?}")
    }
}

/// Breaks things until the storm is over.
pub async fn storm(world: Arc<World>) {
    let dice = world.dice.fork();
    let end = world.clock.millis() + world.plan.storm.as_millis() as u64;
    while world.clock.millis() < end {
        sleep(Duration::from_millis(dice.between(50..=world.plan.pause))).await;
        if world.plan.faults.is_empty() {
            continue;
        }
        let fault = *dice.pick(&world.plan.faults);
        let happened = strike(&world, &dice, fault);
        // The last one comes with the end of the storm.
        let is_over = fault.lasts() && world.clock.millis() >= end;
        if happened && !is_over {
            world.history.count(&fault.name());
        }
    }
}

/// `false`: there was nothing that it could happen to, or it happens later and is counted then.
fn strike(world: &Arc<World>, dice: &super::dice::Dice, fault: Fault) -> bool {
    let node = dice.index(world.plan.nodes);
    let redis = (world.plan.redis > 0).then(|| dice.index(world.plan.redis));
    let millis = *dice.pick(&[30, 100, 300, 1_000, 2_500, 6_000]);
    let now = world.clock.millis();
    let life = world.life(node);
    let was_alive = !life.is_dead();
    world.history.note(format_args!("fault: {fault:?} node {node} redis {redis:?} {millis} ms"));
    match (fault, redis) {
        (Fault::Crash, _) => life.kill(),
        (Fault::CrashAtStep, _) => {
            life.kill_after(dice.between(0..=60));
            return false;
        }
        (Fault::Stop, _) => world.stop(node),
        (Fault::NodePause, _) => life.pause_until(now + millis),
        (Fault::ClockJump, _) => {
            let jump = dice.between(0..=60_000) as i64 - 30_000;
            life.skew.store(jump, Ordering::Relaxed);
        }
        (Fault::CutStore, _) => cut(world, node, vec![Place::Store], millis),
        (Fault::CutRedis, Some(redis)) => cut(world, node, vec![Place::Redis(redis)], millis),
        (Fault::Isolate, _) => {
            let redis = (0..world.plan.redis).map(Place::Redis);
            cut(world, node, redis.chain([Place::Store]).collect(), millis);
        }
        (Fault::StorePause, _) => world.net.pause(Place::Store, now + millis),
        (Fault::StoreRestart, _) => world.store.restart(),
        (Fault::StoreRestartAtCommit, _) => {
            world.store.restart_at_commit(true);
            return false;
        }
        (Fault::Weather, _) => {
            let weather = Weather {
                lost: dice.between(0..=150) as u32,
                slow: dice.between(0..=300) as u32,
                slow_millis: *dice.pick(&[20, 80, 400]),
                twice: dice.between(0..=100) as u32,
                answers: 0,
            };
            change_weather(world, weather, millis);
        }
        (Fault::LostAnswers, _) => {
            let answers = dice.between(20..=300) as u32;
            change_weather(world, Weather { answers, ..Weather::default() }, millis);
        }
        (Fault::RedisPause, Some(redis)) => world.net.pause(Place::Redis(redis), now + millis),
        (Fault::RedisFlush, Some(redis)) => world.redis[redis].flush(),
        (Fault::RedisRestart, Some(redis)) => world.redis[redis].restart(),
        (Fault::RedisLosesKeys, Some(redis)) => return world.redis[redis].lose(dice, 4) > 0,
        (Fault::ScriptFlush, Some(redis)) => world.redis[redis].forget_scripts(),
        // There is no Redis.
        (_, None) => return false,
    }
    let is_of_node = matches!(fault, Fault::Crash | Fault::Stop | Fault::NodePause | Fault::ClockJump);
    was_alive || !is_of_node
}

fn change_weather(world: &Arc<World>, weather: Weather, millis: u64) {
    world.net.set_weather(weather);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(Duration::from_millis(millis)).await;
        world.net.set_weather(Weather::default());
    });
}

fn cut(world: &Arc<World>, node: usize, places: Vec<Place>, millis: u64) {
    places.iter().for_each(|place| world.net.cut(node, *place));
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(Duration::from_millis(millis)).await;
        places.iter().for_each(|place| world.net.mend(node, *place));
    });
}
