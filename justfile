# Everything a change must pass, with the npm servers too
check:
    .ci/run

# All tests under the race detector; or one package: just test ./watch
test *args="./...":
    go test -race {{args}}

# Build the binary into bin/, static: it starts in less time than one that has to be linked first
build:
    CGO_ENABLED=0 go build -o bin/harness ./cmd/harness

# The chosen linters and formatters (five minutes to build the first time)
lint:
    go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

# Rewrite the golden files, to be read like code before they are committed
golden:
    go test $(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u) -update

# 60 seconds of each fuzz target
fuzz time="60s":
    for p in $(go list ./...); do for f in $(go test -list '^Fuzz' $p | grep ^Fuzz); do go test -run '^$' -fuzz "^$f\$" -fuzztime {{time}} $p || exit 1; done; done

# Figures of the real binary against its lower bound
bench *args="":
    go test -run '^$' -bench . -timeout 60m ./integration/bench {{args}}

# Random edits, 500 swaps and 100 kills under calls that never stop, half an hour of 200 sessions that vanish, and harnesses that misbehave under words that never stop (an hour)
soak *args="-upstreams 100 -sessions 20 -edits 200 -swap-bridges 64 -swap-edits 500 -swap-kills 100 -load-for 30m -load-bridges 100 -load-pause 100ms":
    go test -run 'TestSoak|TestLoad' -parallel 1 -timeout 120m -v ./integration {{args}}
    go test -race -run TestSoak_Harnesses -timeout 60m -v ./pkg/daemon -for 10m

# The four real agent CLIs, run by the daemon (1.5 GB to install the first time)
agents:
    .ci/run agents

# Against the heavy servers (ten minutes to build; one needs Node and Chromium) and an exhausted kernel
real:
    go test -tags real -run Real -timeout 60m -v ./integration
