"""Makes generated requests reach the rules behind the validation.

Random ids name nothing, so nearly every valid request would end at "not found". Here, valid requests get ids of the demo's
events, seats and areas, and of holds and bookings that earlier requests made. Ids that an answer has shown are left
alone: somebody follows a link with them. Requests that are meant to be invalid stay as they are.
"""

import itertools
import json
import os
import re

import schemathesis

with open(os.environ["ROWLOCK_DEMO"]) as file:
    EVENTS = json.load(file)["events"]
# Only a key may name the user.
ACTS_AS = os.environ.get("ROWLOCK_ACTS_AS")

numbers = itertools.count()
made = {"hold_token": [], "booking_id": []}
# The codes of the tiers of each event that was seen.
tiers = {}
# Every id that an answer has shown.
shown = set()
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def seat_id(event, ordinal):
    """An event's id with the version 8 and the ordinal in the last eight digits."""
    return f"{event[:14]}8{event[15:28]}{ordinal:08x}"


def newest(kind, n):
    """One of the last few that were made, so that some have ended already and some have not."""
    return made[kind][-1 - n % min(4, len(made[kind]))]


def is_new(holder, name):
    """Whether there is such an id, and no link has put it there."""
    return name in holder and holder[name] not in shown


def fill_path(parameters, event, n):
    if is_new(parameters, "event_id"):
        parameters["event_id"] = event["id"]
        if "seat_id" in parameters and event["seats"]:
            parameters["seat_id"] = seat_id(event["id"], n % event["seats"])
    for kind in made:
        if is_new(parameters, kind) and made[kind]:
            parameters[kind] = newest(kind, n)


def fill_body(body, event, n):
    if any(seat in shown for seat in body.get("seat_ids") or [] if isinstance(seat, str)):
        return
    if "event_id" in body and not is_new(body, "event_id"):
        return
    if "event_id" in body:
        body["event_id"] = event["id"]
    if isinstance(body.get("seat_ids"), list) and event["seats"]:
        # Few enough seats that requests meet each other.
        first = n * 7 % 200
        body["seat_ids"] = [seat_id(event["id"], first + i) for i in range(len(body["seat_ids"]))]
    if isinstance(body.get("areas"), list) and event["areas"]:
        areas = body["areas"][: len(event["areas"])]
        for area, known in zip(areas, event["areas"]):
            area["area_id"] = known["id"]
        body["areas"] = areas


def fill_tiers(path, body, n):
    """Tiers that the event has, and blocks that no other request has filled."""
    codes = tiers.get((path or {}).get("event_id"))
    if not codes:
        return
    sections = body.get("sections")
    for i, section in enumerate(sections if isinstance(sections, list) else []):
        section["tier"] = codes[i % len(codes)]
        section["block"] = f"generated {n} {i}"
    if "capacity" in body and "tier" in body:
        body["tier"] = codes[n % len(codes)]


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    n = next(numbers)
    event = EVENTS[n % len(EVENTS)]
    for name in case.headers or {}:
        # A valid request must not fail because an earlier one happened to use the same key.
        if name.lower() == "idempotency-key":
            case.headers[name] = f"generated-{n}"
    # Mostly the same user, also where none is named: what one request holds, the next one can confirm.
    if ACTS_AS and n % 4:
        if case.headers is None:
            case.headers = {}
        case.headers["Rowlock-User"] = ACTS_AS
    for name, value in (case.headers or {}).items():
        # The client sends one byte a character, and the server reads UTF-8.
        case.headers[name] = value.encode().decode("latin-1")
    if case.path_parameters:
        fill_path(case.path_parameters, event, n)
    if isinstance(case.body, dict):
        fill_body(case.body, event, n)
        fill_tiers(case.path_parameters, case.body, n)


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code not in (200, 201):
        return
    # The large maps would only fill the memory.
    if len(response.content) < 100_000:
        shown.update(ID.findall(response.text))
    if case.operation.path.startswith("/api/") and response.text.startswith("{"):
        body = response.json()
        if "event_id" in body and "tiers" in body:
            tiers[body["event_id"]] = [tier["code"] for tier in body["tiers"]]
    if response.status_code != 201:
        return
    body = response.json()
    for kind in made:
        if kind in body:
            made[kind].append(body[kind])
