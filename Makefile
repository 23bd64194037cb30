# Everything runs on a fresh clone with Go and either Docker or a PostgreSQL installation; the tools are pinned in tools/.

PACKAGES = ./...
POSTGRES = go run ./internal/pgtest/with
TOOL     = go tool -modfile=tools/go.mod

# Its cache remembers absolute paths: shared between two checkouts, it reports files of the one that is gone.
export GOLANGCI_LINT_CACHE = $(CURDIR)/.cache/golangci-lint

.DEFAULT_GOAL := help
.PHONY: help demo test test-pgbouncer bench bench-quick chaos chaos-quick mutants soak failovers generate verify cross lint fmt check

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch three workers elect a leader, lose it three ways, and report every night once (40 s)
	@go run ./internal/demo

test: ## Run the whole suite with the race detector on a throwaway Postgres
	$(POSTGRES) -- go test -race -p 1 -parallel 4 $(PACKAGES)

test-pgbouncer: ## Run the story and the contract tests through PgBouncer too, in transaction and in session mode
	PGLEADER_PGBOUNCER=transaction $(POSTGRES) -- go test -race -p 1 -parallel 4 . ./internal/contract
	PGLEADER_PGBOUNCER=session $(POSTGRES) -- go test -race -p 1 -parallel 4 . ./internal/contract

bench: ## Measure pgleader beside its peers on a throwaway Postgres (7 min); see docs/performance.md
	@cd bench && go run .

bench-quick: ## The same with few runs (2 min)
	@cd bench && go run . -quick

chaos: ## Break everything at random and check the promises (4 min); CHAOS='-seed 7 -histories 1' repeats one
	@go run ./internal/chaos $(CHAOS)

chaos-quick: ## The same in a minute: what CI runs
	@go run ./internal/chaos -histories 40 -restarts 10 -limit 60s $(CHAOS)

mutants: ## Put bugs into the code, one at a time, and show that the suite finds each (7 min)
	@go run ./internal/chaos/mutants $(MUTANTS)

FOR = 10m

soak: ## Run thousands of jobs in a few processes under faults for FOR=10m, and see whether anything grows
	@go run ./internal/chaos -soak $(FOR) $(CHAOS)

failovers: ## Kill leaders at a TTL of 500 ms on a busy machine for FOR=10m, and measure how long their jobs have none
	@go run ./internal/chaos -failover $(FOR) -burn 2 $(CHAOS)

generate: ## Regenerate db/ after a change in queries/ or migrations/
	$(TOOL) sqlc generate

verify: ## Fail if db/ is stale, or if Postgres refuses a query
	$(TOOL) sqlc diff
	$(POSTGRES) -migrate -- $(TOOL) sqlc vet

cross: ## Compile the command line tool for the systems that it runs on
	GOOS=linux CGO_ENABLED=0 go build -o /dev/null ./cmd/pgleader
	GOOS=darwin go build -o /dev/null ./cmd/pgleader
	GOOS=windows go build -o /dev/null ./cmd/pgleader

lint: ## Check formatting and the width of lines, and run the linters
	go mod tidy -diff
	cd bench && go mod tidy -diff && go vet ./...
	$(TOOL) golangci-lint run ./...
	go run ./internal/width

fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

check: verify lint cross test ## All of the above: what CI runs
