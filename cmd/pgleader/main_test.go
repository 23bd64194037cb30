package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestMain(m *testing.M) {
	child.Main() // the test binary is also pgleader, and the process that watches its command
	testscript.Main(mainRunner{m}, map[string]func(){
		"pgleader": main,
	})
}

// mainRunner removes the shared server when the tests have run.
type mainRunner struct{ m *testing.M }

func (r mainRunner) Run() int {
	// Under nohup all that is started here would ignore it too.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	defer func() {
		for _, clean := range cleanUp {
			clean()
		}
	}()
	return pgtest.Run(r.m)
}

// cleanUp is what to do after the tests.
var cleanUp []func()

// Each script has a fresh, migrated database in DATABASE_URL, and one without tables in EMPTY_URL.
// Beside testscript's own commands it has exits, sql, url and role.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exitsCommand,
			"sql":   sqlCommand,
			"url":   urlCommand,
			"role":  roleCommand,
		},
		UpdateScripts: os.Getenv("PGLEADER_UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			setNames(env)
			server := pgtest.Shared(t)
			ctx := context.Background()
			for name, migrated := range map[string]bool{"DATABASE_URL": true, "EMPTY_URL": false} {
				url, err := server.CreateDatabase(ctx, migrated)
				if err != nil {
					return err
				}
				env.Defer(func() { _ = server.DropDatabase(ctx, url) })
				env.Setenv(name, url)
			}
			return nil
		},
	})
}
