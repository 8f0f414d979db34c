//! A trace in words: what was done, and what came of it.

use super::action::Action;
use super::protocol::Protocol;
use super::state::{Claim, Phase, Seat, Stage, State, Status};

/// A line for each step.
pub fn trace(protocol: &Protocol, path: Vec<(State, Option<Action>)>) -> Vec<String> {
    path.windows(2)
        .filter_map(|pair| {
            let action = pair[0].1?;
            let changes = changes(protocol, &pair[0].0, &pair[1].0);
            let came_of_it = outcome(&pair[0].0, action, &pair[1].0);
            let all: Vec<String> = came_of_it.into_iter().chain(changes).collect();
            Some(if all.is_empty() { action.to_string() } else { format!("{action}: {}", all.join(", ")) })
        })
        .collect()
}

fn name(client: usize) -> char {
    char::from(b'A' + client as u8)
}

fn outcome(before: &State, action: Action, after: &State) -> Option<String> {
    let (client, slot) = match action {
        Action::Load { client, slot, .. } | Action::Arrive { client, slot } => {
            (usize::from(client), usize::from(slot))
        }
        _ => return None,
    };
    let request = *before.request(client, slot)?;
    if matches!(action, Action::Arrive { .. }) {
        let is_done = before.holds[client] != after.holds[client];
        return (!is_done).then(|| "what was believed is not so".into());
    }
    // Requests may have changed places: look for the one that is not as it was.
    let others = after.clients[client].requests.iter().flatten();
    let moved = others.copied().find(|other| other.phase != request.phase && other.verb == request.verb);
    let still = after.requests().filter(|(by, _, _)| *by == client).count();
    Some(match moved.map(|request| request.phase) {
        _ if still < before.requests().filter(|(by, _, _)| *by == client).count() => "refused".into(),
        Some(Phase::Loaded) => "to be written".into(),
        Some(Phase::Committed) => "it is so already".into(),
        _ => return None,
    })
}

/// What can be seen to be different.
fn changes(protocol: &Protocol, before: &State, after: &State) -> Vec<String> {
    let mut said = Vec::new();
    for client in 0..protocol.size.clients {
        let (was, is) = (&before.holds[client], &after.holds[client]);
        if was.status != is.status || was.nth != is.nth {
            said.push(match is.status {
                Status::Active => format!("{} has a hold for {} tick(s)", name(client), is.left),
                Status::Expired => format!("the hold of {} has expired", name(client)),
                Status::Released => format!("the hold of {} is released", name(client)),
                Status::Sold => format!("{} has bought", name(client)),
                Status::None => continue,
            });
        } else if is.left > was.left {
            said.push(format!("the hold of {} lasts {} tick(s)", name(client), is.left));
        } else if was.left > 0 && is.left == 0 && is.status == Status::Active {
            said.push(format!("the hold of {} is past its time", name(client)));
        }
        let (was, is) = (&before.clients[client], &after.clients[client]);
        if was.stage != is.stage {
            match is.stage {
                Stage::Holds => {
                    said.push(format!("{} is told that it holds for {} tick(s)", name(client), is.left))
                }
                Stage::Bought => said.push(format!("{} is told that it has bought", name(client))),
                Stage::Released => said.push(format!("{} is told that it has released", name(client))),
                _ => {}
            }
        }
    }
    for seat in 0..protocol.size.seats {
        if before.seats[seat] != after.seats[seat] {
            said.push(format!("seat {seat} is {}", of_seat(after.seats[seat])));
        }
        if before.claims[seat] != after.claims[seat] {
            said.push(match after.claims[seat] {
                Claim::None => format!("seat {seat} has no claim"),
                Claim::Pending(client) => format!("seat {seat} is claimed by {}", name(usize::from(client))),
                Claim::Promoted(client, _) => {
                    format!("seat {seat} is claimed by the hold of {}", name(usize::from(client)))
                }
            });
        }
        if before.follower[seat] != after.follower[seat] {
            said.push(format!("the other nodes know seat {seat} as {}", of_seat(after.follower[seat])));
        }
    }
    said
}

fn of_seat(seat: Seat) -> String {
    match seat {
        Seat::Free => "free".into(),
        Seat::Held(client) => format!("held by {}", name(usize::from(client))),
        Seat::Sold(client) => format!("sold to {}", name(usize::from(client))),
    }
}
