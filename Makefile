.DEFAULT_GOAL := help
FUZZTIME ?= 30s
SCHEDULES ?= 5000
SEQUENCES ?= 20000
ROLLCALL_IMAGE ?= rollcall
export ROLLCALL_IMAGE

.PHONY: build image test race drill mutants fuzz bench compare growth lint proto up down soak help
build: ## static binary bin/rollcall
	CGO_ENABLED=0 go build -trimpath -o bin/rollcall ./cmd/rollcall
image: build ## container image rollcall of that binary; needs Docker, and no network
	docker build --file deploy/Dockerfile --tag $(ROLLCALL_IMAGE) .
test: ## every test suite; installs the Debian packages they need when root
	ci/deps.sh && ci/test.sh
race: ## the tests of all packages but the integration ones, with the race detector
	ci/test.sh unit
drill: ## whole ensembles, broken on purpose
	ci/test.sh drills
mutants: ## faults of one line in the code, each of which a test must notice
	ROLLCALL_MUTANTS=1 go test -count=1 -v -timeout 1h -run 'TestMutants' ./integration
fuzz: ## every fuzz target for FUZZTIME each
	FUZZTIME=$(FUZZTIME) ci/fuzz.sh
bench: ## the benchmarks of all packages, with up to a million sessions, nodes and watches
	go test -run '^$$' -bench . -benchmem -timeout 1h ./...
compare: build ## docs/performance.md: this beside ZooKeeper 3.8, by turns; 40 minutes on a quiet machine
	ci/compare.sh
growth: build ## the curves in docs/performance.md, and docs/sizing.md; half an hour on a quiet machine
	ci/growth.sh
lint: ## gofumpt, go vet, golangci-lint, generated code fresh
	ci/lint.sh
proto: ## proto/*.pb.go from proto/rollcall.proto
	PATH="$$(ci/tools.sh buf protoc-gen-go protoc-gen-go-grpc):$$PATH" && cd proto && buf generate
up: image ## an ensemble of three containers, clients at 127.0.0.1:2181 to 2183
	deploy/ensemble.sh up
down: ## end it; VOLUMES=1 deletes its data, too
	VOLUMES=$(VOLUMES) deploy/ensemble.sh down
soak: ## the drills, SCHEDULES schedules of faults; SEQUENCES of operations, on ZooKeeper too
	TIMEOUT=0 ROLLCALL_SCHEDULES=$(SCHEDULES) ROLLCALL_SEQUENCES=$(SEQUENCES) ci/test.sh drills differential
help: ## this list
	@sed -nE 's/^([a-z]+):[a-z ]* ## /\1\t/p' Makefile | expand -t 8
