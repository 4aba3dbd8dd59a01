.DEFAULT_GOAL := help
FUZZTIME ?= 20000x
SCHEDULES ?= 5000
SEQUENCES ?= 20000
TRIALS ?= 3000
OUTAGES ?= 1000
WIPES ?= 20m
N ?= 200
ROLLCALL_IMAGE ?= rollcall
export ROLLCALL_IMAGE

.PHONY: build builds image modules test rest nightly peers mutants fuzz bench compare growth lint proto packages chart installers release publish-as up down soak help
build: ## static binary bin/rollcall
	CGO_ENABLED=0 go build -trimpath -ldflags "$$(ci/stamp.sh)" -o bin/rollcall ./cmd/rollcall
builds: ## the binary for Linux, macOS and FreeBSD, on amd64 or arm64, to see that all build
	ci/builds.sh
image: build ## container image rollcall of that binary; needs Docker, and no network
	docker build --file deploy/Dockerfile $$(deploy/labels.sh) --tag $(ROLLCALL_IMAGE) .
modules: ## go test ./... in each module, which needs Go alone: the usual form; SHORT=-short for the short one
	@failed=0; for file in $$(find . -name go.mod -not -path '*/testdata/*'); do \
		echo "=== $$(dirname $$file)"; go test -C $$(dirname $$file) $(SHORT) ./... || failed=1; done; exit $$failed
test: ## the short form of the tests, in a few minutes, and in seconds if nothing changed; if root, installs the Debian packages that they need
	ci/deps.sh && ci/test.sh
rest: ## what CI runs beside it: the usual form, the race detector, linters, types on other systems; if root, installs packages, too
	ci/deps.sh rest && ci/test.sh rest
nightly: ## what is too long for each change, in hours: the nightly form, the browser, containers, Kubernetes, hostile clients, wipes, suites of others, builds for other systems, fuzzing, mutants
	ci/deps.sh nightly && ci/test.sh nightly
peers: ## the tests of others for their ZooKeeper clients, see docs/compatibility.md; if root, installs the Debian packages that they need
	ci/deps.sh peers && ci/test.sh peers
mutants: ## N errors in one line of the code, drawn by SEED from PACKAGES or from all, and which of them no test notices
	go run ./tools/mutants -n $(N) $(if $(SEED),-seed $(SEED)) $(PACKAGES)
fuzz: ## every fuzz target for FUZZTIME each
	FUZZTIME=$(FUZZTIME) ci/fuzz.sh
bench: ## the benchmarks of all packages, with up to a million sessions, nodes and watches
	go test -run '^$$' -bench . -benchmem -timeout 1h ./... rollcall/client/... rollcall/zk/... rollcall/zk/kerberos/...
compare: build ## writes docs/performance.md, docs/performance/details.md and docs/sizing.md: this Rollcall, ZooKeeper 3.8 and the floor, by turns; an hour on a quiet machine
	lab/bench/compare.sh
growth: build ## writes the curves in docs/performance/details.md, and docs/sizing.md; 40 minutes on a quiet machine
	lab/bench/growth.sh
lint: ## gofumpt, go vet, errcheck, errorlint, ineffassign, staticcheck, and whether generated code is up to date
	ci/lint.sh
proto: ## writes proto/*.pb.go from proto/rollcall.proto
	PATH="$$(ci/tools.sh protogen protoc-gen-go protoc-gen-go-grpc):$$PATH" protogen proto/rollcall.proto proto protoc-gen-go protoc-gen-go-grpc
packages: ## tar.gz, .deb, .rpm and image archive with SBOM and checksums, into dist: for all systems, or TARGETS="linux/amd64 …"
	deploy/packages/build.sh
chart: ## the Helm chart as dist/rollcall-VERSION.tgz, for helm install and for helm push to a registry; does not need helm
	deploy/packages/chart.sh
installers: ## install.sh and a formula for Homebrew, with the checksums of the packages in dist, which others download from URL
	deploy/packages/installers.sh "$(URL)"
release: ## the packages of VERSION, built twice with the same bytes, and its tag; refuses a dirty tree, pushes nothing
	deploy/packages/release.sh $(VERSION)
publish-as: ## the tree under MODULE, such as github.com/owner/rollcall, with tags, in the directory OUT, and the proof that strangers can install it; pushes nothing
	ci/publish-as.sh "$(MODULE)" "$(OUT)" $(VERSION)
up: image ## starts three members in containers, with clients at 127.0.0.1:2181 to 2183
	deploy/ensemble.sh up
down: ## stops them; VOLUMES=1 also deletes their data
	VOLUMES=$(VOLUMES) deploy/ensemble.sh down
soak: ## what make nightly runs, with the model's larger bounds and from seed FIRST on, or with new seeds: SCHEDULES of faults, TRIALS of damaged files, OUTAGES of power, SEQUENCES beside ZooKeeper, kills and wipes of processes for WIPES; then real applications
	@first=$${FIRST:-$$(shuf -i 1000000-999999999 -n 1)}; echo "to repeat all of this: make soak FIRST=$$first"; \
	ROLLCALL_MODEL=deep ROLLCALL_FIRST=$$first ROLLCALL_SCHEDULES=$(SCHEDULES) ROLLCALL_TRIALS=$(TRIALS) ROLLCALL_OUTAGES=$(OUTAGES) ROLLCALL_SEQUENCES=$(SEQUENCES) ROLLCALL_WIPES=$(WIPES) ci/test.sh soak
help: ## this list
	@sed -nE 's/^([a-z-]+):[a-z ]* ## /\1\t/p' Makefile | expand -t 12
