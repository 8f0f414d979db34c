//! Whether a Redis may throw claims away when its memory is full.

use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};

use super::link::Connection;

/// The only policy under which what was written is there.
pub(super) const SAFE: &str = "noeviction";

/// The policies of all the servers behind the connection.
pub(super) async fn policies(connection: &mut Connection) -> RedisResult<Vec<String>> {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("maxmemory-policy");
    // Managed services often forbid CONFIG. INFO says it as well.
    let answers = match ask(connection, &config).await {
        Ok(answers) => answers.into_iter().map(from_config).collect(),
        Err(_) => Vec::new(),
    };
    if !answers.is_empty() && answers.iter().all(Option::is_some) {
        return Ok(answers.into_iter().flatten().collect());
    }
    let answers = ask(connection, cmd("INFO").arg("memory")).await?;
    Ok(answers.into_iter().map(|answer| from_info(answer).unwrap_or_else(|| "unknown".into())).collect())
}

async fn ask(connection: &mut Connection, command: &Cmd) -> RedisResult<Vec<Value>> {
    match connection {
        Connection::One(connection) => Ok(vec![command.query_async(connection).await?]),
        Connection::Wire(connection) => connection.send(&[command]).await?.into_iter().collect(),
        Connection::Cluster(connection) => {
            let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllNodes, None));
            match connection.route_command(command.clone(), all).await? {
                Value::Map(by_node) => Ok(by_node.into_iter().map(|(_, answer)| answer).collect()),
                other => Ok(vec![other]),
            }
        }
    }
}

fn from_config(answer: Value) -> Option<String> {
    let pairs: Vec<(String, String)> = FromRedisValue::from_redis_value(answer).ok()?;
    pairs.into_iter().find(|(name, _)| name == "maxmemory-policy").map(|(_, value)| value)
}

fn from_info(answer: Value) -> Option<String> {
    let text: String = FromRedisValue::from_redis_value(answer).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?;
    Some(line.trim().to_owned())
}
