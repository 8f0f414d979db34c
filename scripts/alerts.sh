#!/usr/bin/env bash
# Checks what operators are given to watch Rowlock with: the configuration of Prometheus, the alert rules with their
# tests, and that rules and dashboard ask only for metrics that exist. A wrong name in there would be silent for ever.
set -euo pipefail
cd "$(dirname "$0")/.."

promtool check config deploy/prometheus/prometheus.yaml
promtool check rules deploy/prometheus/rules.yaml
promtool test rules deploy/prometheus/rules.test.yaml

python3 - <<'PYTHON'
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

wrong = []
rules = Path("deploy/prometheus/rules.yaml").read_text()
tests = Path("deploy/prometheus/rules.test.yaml").read_text()
dashboard = json.loads(Path("deploy/grafana/rowlock.json").read_text())

# Every metric is somewhere in the code that ships, as a whole string.
ships = [path for path in Path("crates").glob("*/src/**/*.rs") if path.parts[1] not in ("bench", "sim", "fuzz")]
code = "".join(path.read_text() for path in ships)
known = set(re.findall(r'"(rowlock_[a-z0-9_]+)"', code))
used = {}
manual = Path("docs/operating.md").read_text()
places = (("rules", rules), ("rule tests", tests), ("dashboard", json.dumps(dashboard)), ("operating.md", manual))
for place, text in places:
    for name in re.findall(r"\browlock_[a-z0-9_]+", text):
        used.setdefault(name, set()).add(place)
for name, places in sorted(used.items()):
    # A histogram has three series.
    plain = re.sub(r"_(bucket|sum|count)$", "", name)
    if name not in known and plain not in known:
        wrong.append(f"no such metric in crates/: {name} (in {', '.join(sorted(places))})")

# Every alert can be seen firing in a test, and leads to a section that exists.
title = re.compile(r"^#+ (.+)$", re.MULTILINE)
anchors = {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in title.findall(manual)}
alerts = re.split(r"(?m)^ +- alert: ", rules)[1:]
for alert in alerts:
    name = alert.split()[0]
    if f'alertname="{name}", alertstate="firing"' not in tests:
        wrong.append(f"no test in which {name} fires")
    for must in ("severity:", "summary:", "action:", "runbook:"):
        if must not in alert:
            wrong.append(f"{name} has no {must.rstrip(':')}")
    for anchor in re.findall(r'runbook: "docs/operating\.md#([^"]*)"', alert):
        if anchor not in anchors:
            wrong.append(f"{name} leads to docs/operating.md#{anchor}, which does not exist")

# Grafana's variables are no PromQL; with something in their place promtool can read the dashboard's questions too.
panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
questions = [target["expr"] for panel in panels for target in panel["targets"]]
stand_ins = (("$__rate_interval", "1m"), ("$job", "rowlock"), ("$instance", ".*"))
with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    file.write("groups: [{name: dashboard, rules: [\n")
    for number, question in enumerate(questions):
        for variable, value in stand_ins:
            question = question.replace(variable, value)
        file.write(f"{{record: 'q{number}', expr: {json.dumps(question)}}},\n")
    file.write("]}]\n")
    file.flush()
    read = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
    if read.returncode != 0:
        wrong.append(f"the dashboard asks what promtool can't read:\n{read.stderr}")

if not (alerts and panels and used):
    wrong.append("no alerts, no panels or no metrics were found")
for line in wrong:
    print(line, file=sys.stderr)
if wrong:
    sys.exit(1)
print(f"{len(alerts)} alerts and {len(panels)} panels ask for metrics that exist")
PYTHON
