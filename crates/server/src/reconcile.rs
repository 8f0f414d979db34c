//! `rowlock reconcile`: Redis brought to agree with Postgres, event by event, also while servers run.

use std::process::ExitCode;

use indicatif::ProgressBar;
use rowlock_core::{EventId, OrgId};
use rowlock_registry::reconcile::{Repairs, reconcile_all};
use rowlock_registry::{Engine, Failure};

use crate::cli::Reconcile;
use crate::config::Origins;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::{Server, Settings};
use crate::{logging, store, verify};

const PAGE: usize = 500;

pub fn run(settings: &Settings, origins: &Origins, args: &Reconcile) -> Result<ExitCode, Fault> {
    if settings.warm().is_none() {
        return Err(Fault::new(
            "there is nothing to reconcile without a Redis: name it with --redis (and --truth)",
        ));
    }
    // Why Redis can't be reached is said there.
    logging::start(&Server { log_level: "warn".into(), ..settings.server.clone() });
    let (events, repairs) = store::block_on(async {
        let truth = store::existing(settings, origins).await?;
        let engine = store::engine(settings, origins, truth).await?;
        let bar = verify::bar();
        let done = reconcile(&engine, args.event, &bar).await;
        bar.finish_and_clear();
        let is_away = engine.health().await.degraded;
        engine.stop().await;
        if is_away {
            return Err(Fault::new(
                "Redis can't be reached, so it was not compared and nothing in it repaired",
            ));
        }
        done.map_err(|failure| Fault::new(format!("the tiers could not be reconciled: {failure}")))
    })??;
    say(format!("{events:>12}  events compared"));
    for (count, what) in [
        (repairs.claims_removed, "claims without a hold removed"),
        (repairs.claims_restored, "claims restored"),
        (repairs.holds_expired, "holds past their time ended"),
        (repairs.copies_rebuilt, "copies of events written anew"),
    ] {
        say(format!("{count:>12}  {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn reconcile(
    engine: &Engine,
    only: Option<EventId>,
    bar: &ProgressBar,
) -> Result<(usize, Repairs), Failure> {
    let mut events = all_events(engine).await?;
    if let Some(only) = only {
        events.retain(|(_, event)| *event == only);
        if events.is_empty() {
            return Err(rowlock_core::Refusal::UnknownEvent { event: only }.into());
        }
    }
    bar.set_length(events.len() as u64);
    let repairs = reconcile_all(engine, &events, || bar.inc(1)).await?;
    Ok((events.len(), repairs))
}

async fn all_events(engine: &Engine) -> Result<Vec<(OrgId, EventId)>, Failure> {
    let (mut found, mut after_org) = (Vec::new(), None);
    loop {
        let orgs = engine.orgs(after_org, PAGE).await?;
        let Some(last) = orgs.last().map(|org| org.id) else { return Ok(found) };
        for org in &orgs {
            let mut after = None;
            loop {
                let page = engine.events(org.id, after, PAGE).await?.events;
                let Some(last) = page.last().map(|summary| summary.event.id) else { break };
                found.extend(page.iter().map(|summary| (org.id, summary.event.id)));
                after = Some(last);
            }
        }
        after_org = Some(last);
    }
}
