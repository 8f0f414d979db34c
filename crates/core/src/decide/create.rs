//! Making what the other verbs work on: orgs, keys, events, blocks, seats, areas.

use super::{Decided, Facts, event_of};
use crate::area::Area;
use crate::command::NewSection;
use crate::event::{Block, Event, check_tiers};
use crate::fact::{Fact, KeyRevoked, SectionsAdded};
use crate::ids::{AreaId, BlockId, EventId, IdSource, KeyId, OrgId};
use crate::limits::{
    MAX_AREA_CAPACITY, MAX_AREAS_PER_EVENT, MAX_BLOCKS_PER_EVENT, MAX_SEATS_PER_CREATE, MAX_SEATS_PER_EVENT,
    MAX_SECTIONS_PER_CREATE,
};
use crate::org::{ApiKey, Org, Scopes};
use crate::outcome::{Outcome, SeatsCreated};
use crate::refusal::Refusal;
use crate::seat::{Section, label};
use crate::slice::{EventRow, Slice, TakenPlace};
use crate::text::{Name, Row};
use crate::time::Time;

fn invalid<T>(field: &'static str, rule: impl ToString) -> Result<T, Refusal> {
    Err(Refusal::Invalid { field, rule: rule.to_string() })
}

fn one(fact: Fact) -> Facts {
    Facts::from_iter([fact])
}

pub(super) fn org(name: &Name, now: Time, ids: &mut dyn IdSource) -> Result<Decided, Refusal> {
    let org = Org { id: OrgId::from_uuid(ids.next(now)), name: name.clone(), created_at: now };
    Ok(Decided::new(one(Fact::OrgCreated(org.clone())), Outcome::Org(org)))
}

pub(super) fn api_key(
    slice: &Slice,
    org: OrgId,
    name: &Name,
    scopes: Scopes,
    secret_hash: [u8; 32],
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    known_org(slice, org)?;
    if scopes.is_empty() {
        return invalid("scopes", "must name at least one scope");
    }
    let id = KeyId::from_uuid(ids.next(now));
    let key = ApiKey { id, org, name: name.clone(), scopes, secret_hash, created_at: now, revoked_at: None };
    Ok(Decided::new(one(Fact::ApiKeyCreated(key.clone())), Outcome::ApiKey(key.into())))
}

pub(super) fn revoke_api_key(slice: &Slice, org: OrgId, id: KeyId, now: Time) -> Result<Decided, Refusal> {
    let key = match slice.keys.get(&id) {
        Some(row) if row.value.org == org => &row.value,
        _ => return Err(Refusal::UnknownKey { key: id }),
    };
    if key.revoked_at.is_some() {
        return Ok(Decided::new(Facts::new(), Outcome::ApiKey(key.clone().into())));
    }
    let fact = Fact::ApiKeyRevoked(KeyRevoked { org, key: id, revoked_at: now });
    Ok(Decided::new(one(fact), Outcome::ApiKey(ApiKey { revoked_at: Some(now), ..key.clone() }.into())))
}

pub(super) fn event(slice: &Slice, event: Event) -> Result<Decided, Refusal> {
    known_org(slice, event.org)?;
    if let Err(rule) = check_tiers(&event.tiers) {
        return invalid("tiers", rule);
    }
    if let Err(broken) = event.policy.check() {
        return invalid(broken.field, broken.rule);
    }
    Ok(Decided::new(one(Fact::EventCreated(event.clone())), Outcome::Event(event.into())))
}

pub(super) fn block(
    slice: &Slice,
    org: OrgId,
    event: EventId,
    name: &Name,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let row = event_of(slice, org, event)?;
    if row.blocks.iter().any(|block| block.name == *name) {
        return Err(Refusal::NameTaken { name: name.clone() });
    }
    let block = new_block(row, 0, name, now, ids)?;
    Ok(Decided::new(one(Fact::BlockCreated(block.clone())), Outcome::Block(block)))
}

fn new_block(
    row: &EventRow,
    more: usize,
    name: &Name,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Block, Refusal> {
    if row.blocks.len() + more >= MAX_BLOCKS_PER_EVENT {
        return Err(Refusal::EventFull { what: "blocks", limit: MAX_BLOCKS_PER_EVENT as u32 });
    }
    Ok(Block { id: BlockId::from_uuid(ids.next(now)), event: row.event.id, name: name.clone() })
}

pub(super) fn seats(
    slice: &Slice,
    org: OrgId,
    event: EventId,
    wanted: &[NewSection],
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let row = event_of(slice, org, event)?;
    if wanted.is_empty() || wanted.len() > MAX_SECTIONS_PER_CREATE {
        return invalid("sections", "must be between 1 and 500 sections");
    }
    let mut facts = Facts::new();
    let mut created: Vec<Block> = Vec::new();
    let mut used: Vec<Block> = Vec::new();
    let mut sections: Vec<Section> = Vec::with_capacity(wanted.len());
    let mut count: u32 = 0;
    for new in wanted {
        let tier = row.event.tier(new.tier.as_str());
        let tier = tier.ok_or_else(|| Refusal::UnknownTier { tier: new.tier.clone() })?;
        let known = row.blocks.iter().chain(&created).find(|block| block.name == new.block).cloned();
        let block = match known {
            Some(block) => block,
            None => {
                let block = new_block(row, created.len(), &new.block, now, ids)?;
                facts.push(Fact::BlockCreated(block.clone()));
                created.push(block.clone());
                block
            }
        };
        let section = Section { block: block.id, tier, ..new.section.clone() };
        match section.check() {
            // Cannot overflow: at most 500 sections of at most 100,000 seats.
            Ok(seats) => count += seats,
            Err(rule) => return invalid("sections", rule),
        }
        if count > MAX_SEATS_PER_CREATE {
            return invalid("sections", "must have at most 100000 seats together");
        }
        if !used.contains(&block) {
            used.push(block);
        }
        sections.push(section);
    }
    let printed = |taken: &TakenPlace| format!("{} {}", taken.block, label(taken.row.as_str(), taken.number));
    let taken = slice.taken_place(event, wanted).map(printed);
    if let Some(place) = taken.or_else(|| overlap(&sections, &used)) {
        return Err(Refusal::PlaceTaken { place });
    }
    if row.seat_count + count > MAX_SEATS_PER_EVENT {
        return Err(Refusal::EventFull { what: "seats", limit: MAX_SEATS_PER_EVENT });
    }
    let first_ordinal = row.seat_count;
    facts.push(Fact::SeatsCreated(SectionsAdded { event, first_ordinal, count, sections }));
    Ok(Decided::new(facts, Outcome::Seats(SeatsCreated { event, first_ordinal, count, blocks: used })))
}

/// A place that two sections of one request have both.
fn overlap(sections: &[Section], blocks: &[Block]) -> Option<String> {
    let mut lines: Vec<(BlockId, &Row, u32, u32)> = sections
        .iter()
        .flat_map(|section| section.rows.iter().map(move |row| (section, row)))
        .map(|(section, row)| (section.block, row, section.first_number, section.last_number))
        .collect();
    lines.sort_unstable();
    let twice = lines.windows(2).find(|pair| {
        let (one, next) = (pair[0], pair[1]);
        (one.0, one.1) == (next.0, next.1) && next.2 <= one.3
    })?;
    let (block, row, number, _) = twice[1];
    let name = blocks.iter().find(|known| known.id == block).map_or("", |known| known.name.as_str());
    Some(format!("{name} {}", label(row.as_str(), number)))
}

#[allow(clippy::too_many_arguments)]
pub(super) fn area(
    slice: &Slice,
    org: OrgId,
    event: EventId,
    name: &Name,
    tier: &Name,
    capacity: u32,
    now: Time,
    ids: &mut dyn IdSource,
) -> Result<Decided, Refusal> {
    let row = event_of(slice, org, event)?;
    let tier = row.event.tier(tier.as_str()).ok_or_else(|| Refusal::UnknownTier { tier: tier.clone() })?;
    if capacity == 0 || capacity > MAX_AREA_CAPACITY {
        return invalid("capacity", "must be between 1 and 1000000");
    }
    if row.areas.len() >= MAX_AREAS_PER_EVENT {
        return Err(Refusal::EventFull { what: "areas", limit: MAX_AREAS_PER_EVENT as u32 });
    }
    if row.areas.iter().any(|(_, taken)| taken == name) {
        return Err(Refusal::NameTaken { name: name.clone() });
    }
    let id = AreaId::from_uuid(ids.next(now));
    let area = Area { id, event, name: name.clone(), tier, capacity, held: 0, sold: 0 };
    Ok(Decided::new(one(Fact::AreaCreated(area.clone())), Outcome::Area(area.into())))
}

fn known_org(slice: &Slice, org: OrgId) -> Result<(), Refusal> {
    if slice.orgs.contains_key(&org) { Ok(()) } else { Err(Refusal::UnknownOrg { org }) }
}
