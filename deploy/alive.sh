#!/bin/bash
# Asks the server in this container whether it is alive, or for another path: rowlock-alive /readyz
# Written with what the shell has, so that the image needs no HTTP client.
set -eu
port=${ROWLOCK__SERVER__LISTEN##*:}
exec 3<>"/dev/tcp/127.0.0.1/${port:-8080}"
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "${1:-/livez}" >&3
read -r status <&3
[[ $status == "HTTP/1.1 200 "* ]]
