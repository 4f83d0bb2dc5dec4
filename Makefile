# What there is to do: 'make help'.

GO           ?= go
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.8.0
GOTESTSUM    := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK  := golang.org/x/vuln/cmd/govulncheck@v1.9.0
KREW         := sigs.k8s.io/krew/cmd/krew@v0.4.3
CONTROLLER_GEN := sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
SAMPLE       := samples/cluster
VERSION      := $(shell sed -n 's/^version: //p' deploy/helm/ip-reconcile/Chart.yaml)

# Everything is compiled with one set of flags, the programs that the tests run too (e2e/harness/build.go):
# the Go build cache keeps each package once. Only the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
TESTSUM := $(GO) run $(GOTESTSUM) --format pkgname --

# With a kubeconfig 'make run' looks at that cluster, without one at the sample.
ARGS ?= $(if $(KUBECONFIG)$(wildcard $(HOME)/.kube/config),check,check --all --snapshot $(SAMPLE))

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.PHONY: run
run: build ## Judge the cluster of the current kubeconfig, or without one the bundled sample (ARGS="run --dry-run" for another command)
	@bin/ip-reconcile $(ARGS); code=$$?; [ $$code -le 1 ] || exit $$code

# DOCS_URL is the URL where you publish the folder docs, if you do: printed advice then links to it.
# A build in the image has no version control to take REVISION from. For the pages of grpc's traces, which no program
# serves, the linker would keep every method of every type: the programs would be half as large again.
LINKED := github.com/ip-reconcile/ip-reconcile/internal/version.linked
BUILD := $(GO) build -tags grpcnotrace -ldflags "-s -w -X $(LINKED)Version=$(VERSION) -X $(LINKED)Revision=$(REVISION) -X $(LINKED)Docs=$(DOCS_URL)"

PROGRAMS := ./cmd/ip-reconcile ./cmd/ip-reconcile-agent ./cmd/ip-reconciler
OUT := bin/

.PHONY: build
build: ## Build bin/ip-reconcile, bin/ip-reconcile-agent and the drop-in bin/ip-reconciler
	$(BUILD) -o $(OUT) $(PROGRAMS)

PREFIX ?= /usr/local

.PHONY: install
install: build ## Install bin/ip-reconcile into PREFIX/bin, and as the plugin of kubectl, 'kubectl ip-reconcile' (PREFIX=~/.local)
	install -D -m 0755 bin/ip-reconcile $(DESTDIR)$(PREFIX)/bin/ip-reconcile
	ln -sf ip-reconcile $(DESTDIR)$(PREFIX)/bin/kubectl-ip_reconcile
	ln -sf ip-reconcile $(DESTDIR)$(PREFIX)/bin/kubectl_complete-ip_reconcile

# The root module's tests: in a fifth of the depth of the properties, SHORT= in all of it.
SHORT ?= -short
WAITING := -parallel 8 # tests that wait do so together

# The tests in e2e are in three tiers: each file with tests says by its build tag which one
# it is of. Without tags: the API server and whereabouts' plugin. slow: containerd, and what
# takes long. cluster: the scenarios in a whole cluster.
E2E_TAGS := slow,cluster

# The race detector compiles everything a second time and makes tests slower: only the packages that start goroutines
# or lock run with it, in 'make test-race'. 'make lint' has run go vet.
CONCURRENT := \b(go func|go [a-z][A-Za-z.]*\(|sync\.(Mutex|RWMutex|WaitGroup|Map|Pool|Once\b)|atomic\.|errgroup\.|httptest\.New)
RACING = $(shell grep -rlE --include='*.go' '^[^/"]*$(CONCURRENT)' agent cmd internal ippool podstate reconciler | xargs -n 1 dirname | sort -u | sed 's,^,./,')

# What the tests that measure log, and those with faults.
TESTSUM_JSON := $(GO) run $(GOTESTSUM) --format pkgname --jsonfile ../bin/e2e.json --
PRINT_MEASURED := sed -nE 's/.*"Output":" *((storm|measure|measure_cost|upstream_linux)_test.go:[^"]*|fault_[a-z]+_test.go:[0-9]+: faults:[^"]*)\\n"}$$/\1/p' ../bin/e2e.json

.PHONY: test
test: test-unit test-api ## Run the unit and property tests, and (as root on Linux) those on a real API server with whereabouts' plugin

.PHONY: test-unit
test-unit: ## Run the unit and property tests alone
	@$(GO) test -vet=off -count=1 $(SHORT) $(WAITING) ./...

# What is left out measures memory, or reads megabytes with one goroutine, for which the race detector needs minutes.
UNRACED := ^Test(Inspect_LargeAnnotations|Limits_ValuesAreCountedBeforeDecoding|AFewKilobytesDoNotTakeAllMemory|Encode_JudgedAsTheCluster|List_PagesAreBoundedByBytes|Ring_[A-Za-z]+)$$

.PHONY: test-race
test-race: ## Run the unit tests of the packages that start goroutines with the race detector
	@CGO_ENABLED=1 $(GO) test -race -vet=off -count=1 -short $(WAITING) -skip '$(UNRACED)' $(RACING)

.PHONY: test-api
test-api: preflight ## Run the tests on a real API server with whereabouts' plugin alone (as root on Linux)
	@cd e2e && $(TESTSUM) -count=1 -timeout 20m ./...

.PHONY: test-oldest
test-oldest: preflight ## Run test-api on the oldest API server that is supported with agents, v1.30 (e2e/oldest)
	@cd e2e && IP_RECONCILE_API_SERVER=oldest $(TESTSUM) -count=1 -timeout 30m .

.PHONY: test-newest
test-newest: preflight ## Run test-api on the newest API server, v1.37 (e2e/newest)
	@cd e2e && IP_RECONCILE_API_SERVER=newest $(TESTSUM) -count=1 -timeout 30m .

.PHONY: test-runtimes
test-runtimes: preflight ## Run the tests of test-slow that need a real runtime on containerd 1.7 (e2e/containerd17), and one with thick Multus
	@cd e2e && IP_RECONCILE_RUNTIMES=other $(TESTSUM) -count=1 -timeout 40m -tags slow -run '^TestRuntime_' .

.PHONY: test-slow
test-slow: preflight ## Run the tests with a real containerd, the long ones and the measurements in small (as root on Linux)
	@mkdir -p bin && cd e2e && $(TESTSUM_JSON) -count=1 -timeout 40m -tags slow ./...; code=$$?; $(PRINT_MEASURED); exit $$code

.PHONY: measure
measure: preflight ## Run what measures at full size: 10,000 pods, pools of 5,000 entries (as root on Linux)
	@mkdir -p bin && cd e2e && $(TESTSUM_JSON) -count=1 -timeout 100m -tags slow -parallel 1 -run '^TestMeasure_' . -args -full; code=$$?; $(PRINT_MEASURED); exit $$code
	@cd e2e && $(GO) test -count=1 -timeout 60m -v -run '^TestDay$$' ./sim -args -hours 24

.PHONY: linearize
linearize: preflight ## Check that 10,000 operations under faults are linearizable, and that a missing second check shows (as root on Linux)
	@mkdir -p bin && cd e2e && $(TESTSUM_JSON) -count=1 -timeout 180m -tags slow -run '^TestFaults_(AnyRequestMayFail|WatchesOfPodsLag)$$' . -args -full; code=$$?; $(PRINT_MEASURED); exit $$code

.PHONY: preflight
preflight:
	@cd e2e && $(GO) run ./harness/cmd/preflight

.PHONY: fetch
fetch: ## Download the modules of the product, the tests, the parts and the tools
	@$(GO) mod download
	@for module in e2e e2e/parts e2e/containerd; do $(GO) -C $$module mod download || exit; done
	@for tool in $(GOLANGCI_LINT) $(GOTESTSUM) $(GOVULNCHECK) $(KREW); do out=$$($(GO) install -n $$tool 2>&1) || { echo "$$out"; exit 1; }; done

.PHONY: parts
parts: ## Build the programs of other projects that the tests run, which they else do themselves
	@cd e2e && $(GO) run ./harness/cmd/parts && $(GO) tool -n helm >/dev/null

HISTORIES ?= 100000
SEED ?= 1
WORKERS ?= $(shell nproc)

.PHONY: simulate
simulate: ## Play random histories in a simulated cluster, with the product's and whereabouts' own code (HISTORIES=1000000 SEED=7 WORKERS=8)
	@cd e2e && nice $(GO) test -count=1 -timeout 0 -v -run '^TestNoHistoryBreaksAnInvariant$$' ./sim -args -histories $(HISTORIES) -seed $(SEED) -workers $(WORKERS)

.PHONY: simulate-restores
simulate-restores: ## Play random histories in which etcd is restored again and again (HISTORIES=50000 SEED=7 WORKERS=8)
	@cd e2e && nice $(GO) test -count=1 -timeout 0 -v -run '^TestNoHistoryBreaksAnInvariant$$' ./sim -args -restores -histories $(HISTORIES) -seed $(SEED) -workers $(WORKERS)

.PHONY: simulate-edits
simulate-edits: ## Play random histories in which definitions are edited while pods run (HISTORIES=50000 SEED=7 WORKERS=8)
	@cd e2e && nice $(GO) test -count=1 -timeout 0 -v -run '^TestNoHistoryBreaksAnInvariant$$' ./sim -args -edits -histories $(HISTORIES) -seed $(SEED) -workers $(WORKERS)

BASE ?= HEAD
CLUSTERS ?= 2000

.PHONY: same
same: ## Compare what this tree says and writes with another version, for random clusters and histories (BASE=main CLUSTERS=2000 HISTORIES=2000)
	@CLUSTERS=$(CLUSTERS) HISTORIES=$(if $(filter command line,$(origin HISTORIES)),$(HISTORIES),2000) WORKERS=$(WORKERS) .ci/same $(BASE)

.PHONY: model
model: ## Explore the model of the release protocol in SPIN (e2e/model), and print the states; 'make test-api' does so, too
	@cd e2e && $(GO) test -count=1 -v ./model

.PHONY: e2e
e2e: preflight ## Run the scenarios in a whole cluster (as root on Linux): kubelets, containerd, and the product as its manifests install it
	@cd e2e && $(GO) run $(GOTESTSUM) --format testname -- -count=1 -timeout 60m -parallel 3 -tags cluster .

.PHONY: test-all
test-all: ## Run all tests: 'make test' with the properties in full depth, 'make test-slow' and 'make e2e'
	@$(MAKE) --no-print-directory test SHORT=
	@$(MAKE) --no-print-directory test-slow
	@$(MAKE) --no-print-directory e2e

# How long 'make fuzz' spends on each target; its seeds and what was found before run in 'make test'.
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Fuzz every target, one after the other (FUZZTIME=30s each), and print the executions of each
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$package 2>&1) || { echo "$$out"; exit 1; }; \
			execs=$$(echo "$$out" | sed -n 's/^fuzz: elapsed: [^,]*, \(execs: .*\)/\1/p' | tail -n 1); \
			echo "$$package $$target: $${execs:-none beyond the corpus: FUZZTIME is too short}"; \
		done; \
	done

.PHONY: mutants
mutants: ## Break the product on purpose, in one place at a time, and see that a unit test fails for each (RUN="the breaker" for some)
	@$(GO) run ./internal/mutants $(if $(RUN),-run "$(RUN)")

.PHONY: times
times: ## Measure what the tables of docs/contribute/testing.md say, three times each, and write it there (RUN="go test" for some)
	@.ci/times "$(RUN)"

CALIBRATE ?= of the backup|A lost write|version runs backwards|A boot since

.PHONY: calibrate
calibrate: ## Count the histories that find faults which were mended once (CALIBRATE="the breaker" for mutants, HISTORIES=5000, RESTORES=true)
	@$(GO) run ./internal/mutants -run "$(CALIBRATE)" -simulate $(if $(filter command line,$(origin HISTORIES)),$(HISTORIES),5000) $(if $(RESTORES),-restores)

.PHONY: beside
beside: ## Play situations in a whole cluster with ours and with upstream's reconciler, and write the table in docs/explain/comparison.md
	@mkdir -p bin && cd e2e && IP_RECONCILE_TABLE=$(CURDIR)/docs/explain/comparison.md $(GO) test -count=1 -timeout 90m -parallel 3 -v -tags cluster -run '^TestBesideUpstream$$' . > ../bin/beside.log || { tail -n 50 ../bin/beside.log; exit 1; }

.PHONY: cluster
cluster: build ## Run such a cluster with two workers until Ctrl-C, to look at and to play with (PROMETHEUS=1: and a Prometheus that scrapes it)
	@cd e2e && exec $(GO) run ./cmd/cluster up ../bin/cluster ../bin/ip-reconcile ../bin/ip-reconcile-agent ../bin/ip-reconciler

.PHONY: cluster-down
cluster-down: ## End the cluster of 'make cluster', and remove what killed ones left
	@cd e2e && $(GO) run ./cmd/cluster down ../bin/cluster

# The tier of e2e that golangci-lint sees: each takes minutes.
LINT_TAGS ?= slow

.PHONY: lint
lint: ## Run gofmt, the checks of comments and messages in internal/style, go vet with all build tags, and golangci-lint
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) test -count=1 ./internal/style
	$(GO) vet ./...
	cd e2e && $(GO) vet ./... && $(GO) vet -tags $(E2E_TAGS) ./...
	$(GO) run $(GOLANGCI_LINT) run ./...
	cd e2e && $(GO) run $(GOLANGCI_LINT) run --config ../.golangci.yaml --build-tags $(LINT_TAGS) ./...

# Installed and not run by 'go run', which hides the exit code: 3 is a vulnerability that is called.
.PHONY: vuln
vuln: ## Look for known vulnerabilities that the programs call; VULNDB=<URL> asks another database than Go's, and VULNDB_EXPECTED=1 fails if none can be read
	@GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK)
	@code=0; said=$$(bin/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1) || code=$$?; \
	case "$$code:$$said" in \
	1:*"fetching vulnerabilities"*) echo "NOT CHECKED for known vulnerabilities: their database cannot be reached ($$said)"; test -z "$(VULNDB_EXPECTED)";; \
	*) echo "$$said"; exit $$code;; \
	esac

.PHONY: generate
generate: ## Generate the CRD and deepcopy code from api/v1alpha1, alerts and dashboard from internal/monitoring, and pages of docs from the code
	$(GO) run $(CONTROLLER_GEN) object crd paths=./api/v1alpha1 output:crd:dir=deploy/crds
	cp deploy/crds/*.yaml deploy/helm/ip-reconcile/crds/
	UPDATE_DOCS=1 $(GO) test -count=1 -run '^TestDocs_Verdicts$$' ./reconciler/judge
	UPDATE_DOCS=1 $(GO) test -count=1 -run '^TestSchema_Docs$$' ./internal/cli/view
	UPDATE_DOCS=1 $(GO) test -count=1 -run '^TestGenerated$$' ./internal/monitoring
	cd e2e && UPDATE_DOCS=1 $(GO) test -count=1 -run '^TestReferenceDocs$$' .
	UPDATE_DOCS=1 $(GO) test -count=1 -run '^TestCommands_Docs$$' ./cmd/ip-reconcile

.PHONY: tickets
tickets: ## Play the tickets of docs/operate/tickets.md in a whole cluster, and write what each command prints there
	@cd e2e && UPDATE_DOCS=1 $(GO) test -count=1 -timeout 20m -tags cluster -run '^TestTickets$$' .

.PHONY: pictures
pictures: ## Write the pictures of the page and of status in docs/pictures, with Debian's chromium
	@cd e2e && IP_RECONCILE_REAL=1 $(GO) test -count=1 -tags slow -run '^TestUI_Picture' . -args -update

.PHONY: image
image: ## Build the container image with docker, tagged with the version, and the drop-in for whereabouts' manifests (IMAGE=example.com/ip-reconcile)
	$(if $(IMAGE),,$(error IMAGE names no repository: make image IMAGE=example.com/ip-reconcile))
	docker build -t $(IMAGE):$(VERSION) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) -f deploy/Dockerfile .
	docker build -t $(IMAGE)-drop-in:$(VERSION) --target drop-in --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) -f deploy/Dockerfile .

PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64

.PHONY: release
release: ## Write a release of the commit into dist: programs, images, chart, manifests, SBOMs, checksums (IMAGE=example.com/ip-reconcile)
	$(if $(IMAGE),,$(error IMAGE names no repository: make release IMAGE=example.com/ip-reconcile))
	@changes=$$(git status --porcelain); test -z "$$changes" || { printf "in no commit:\n%s\n" "$$changes" >&2; exit 1; }
	rm -rf dist
	@cd e2e && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run ./cmd/release -image "$(IMAGE)" -version "$(VERSION)" \
		-revision $$(git rev-parse HEAD) -platforms "$(PLATFORMS)" .. ../dist

.PHONY: bench
bench: ## Measure beside upstream's reconciler on a real API server (as root on Linux), and write docs/explain/performance.md (WORK="10000 adds" for some of it)
	$(BUILD) -o bin/bench/ $(PROGRAMS)
	cd e2e && $(BUILD) -o ../bin/bench/ ./bench/cmd/...
	cd e2e && ../bin/bench/bench measure -programs ../bin/bench -results ../bin/bench/results.json $(WORK)
	cd e2e && ../bin/bench/bench report -programs ../bin/bench -results ../bin/bench/results.json ../docs/explain/performance.md

.PHONY: bench-go
bench-go: ## Run Go's benchmarks of judging, decoding and patches, into bin/bench/gobench.txt for benchstat
	@mkdir -p bin/bench
	$(GO) test -run '^$$' -bench . -benchmem -count 5 ./ippool ./podstate ./reconciler/judge > bin/bench/gobench.txt || { tail -n 50 bin/bench/gobench.txt; exit 1; }

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin dist
