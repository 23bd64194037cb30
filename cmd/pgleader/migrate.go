package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/schema"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "create pgleader's tables, or bring them up to date",
		Long: `migrate changes pgleader's tables. Their version is kept in leader_schema_migrations,
beside an application's own schema_migrations, in the format of golang-migrate; its command,
this one and migrations.Up wait for each other.

The tables are where search_path finds them already, else in its first schema.`,
		Example: `  pgleader migrate up
  pgleader migrate print | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			path := cmd.CommandPath()
			return words.WithHint(fmt.Errorf("unknown command %q for %q", args[0], path),
				"see '%s --help'", path)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.migrateUpCommand(), a.migrateDownCommand())
	cmd.AddCommand(a.migrateVersionCommand(), a.migratePrintCommand())
	return cmd
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "apply what is missing",
		Long: `up applies the versions that the database lacks, all of them or none, in one transaction.
It waits up to 15 s for another migration, and 2 s for a table that is in use. A database that
is up to date, or newer than this program, is left alone: no lock is taken.

The role must own the tables, and may create tables in their schema.`,
		Example: `  pgleader migrate up --database-url postgres://owner@db.example.com/app`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrate(cmd.Context(), func(ctx context.Context, pool *sql.DB, _ int) error {
				return migrations.Up(ctx, pool)
			})
		},
	}
}

func (a *app) migrateDownCommand() *cobra.Command {
	var yes bool
	var steps int
	cmd := &cobra.Command{
		Use:   "down",
		Short: "take the tables away again",
		Long: `down drops pgleader's tables, with every lease, fencing token and slot on record, and the
version table; or with --steps only what the newest versions have brought. It is one
transaction. Stop the workers first. After another up, tokens start anew, and whatever
remembers a greater one refuses the new leaders.`,
		Example: `  pgleader migrate down --yes
  pgleader migrate down --steps 1 --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return words.WithHint(errors.New("down would drop tables with everything in them"),
					"add --yes if that is meant; 'pgleader migrate print --down' shows the statements")
			}
			return a.migrate(cmd.Context(), func(ctx context.Context, pool *sql.DB, version int) error {
				target := 0
				if steps > 0 {
					target = max(0, version-steps)
				}
				return migrations.Down(ctx, pool, target)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	numberVar(cmd, &steps, "steps", "", 0, atLeast(1), "how many `versions` to take back; default all")
	return cmd
}

// migrate runs a change and prints what it came from and went to.
func (a *app) migrate(
	ctx context.Context, change func(_ context.Context, _ *sql.DB, version int) error,
) error {
	o, err := a.session()
	if err != nil {
		return err
	}
	defer o.close()
	before, err := migrations.Version(ctx, o.pool)
	if err != nil {
		return err
	}
	if err := change(ctx, o.pool, before.Version); err != nil {
		return err
	}
	after, err := migrations.Version(ctx, o.pool)
	if err != nil {
		return err
	}
	if before.Version == after.Version {
		fmt.Fprintf(a.stdout, "nothing to do: %s\n", schema.Describe(after))
	} else {
		fmt.Fprintf(a.stdout, "from version %d to version %d\n", before.Version, after.Version)
	}
	return nil
}

func (a *app) migrateVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of the tables",
		Long: `version prints at which version the tables are. It takes no lock and writes nothing.

It exits with 0 if nothing is missing, also when the database is newer than this program;
with 1 if the tables are missing, older, or marked dirty; with 125 if it could not ask.`,
		Example: `  pgleader migrate version || pgleader migrate up`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			state, err := migrations.Version(cmd.Context(), o.pool)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, schema.Describe(state))
			if state.Dirty || state.Version < state.Newest {
				return negative(nil)
			}
			return nil
		},
	}
}

func (a *app) migratePrintCommand() *cobra.Command {
	var down bool
	var from int
	cmd := &cobra.Command{
		Use:   "print",
		Short: "print the SQL, to review it or to pipe it into psql",
		Long: `print writes to stdout the statements that up would execute on an empty database, or with
--down those of down, in one transaction, with what keeps the version. It does not connect.
The statements name no schema: the tables are created in the first one of search_path.`,
		Example: `  pgleader migrate print | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"
  pgleader migrate print --from 1 > upgrade.sql`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scripts, err := schema.Read()
			if err != nil {
				return err
			}
			newest := scripts.Newest()
			text, within, otherwise := scripts.Up, between(0, newest-1), 0
			if down {
				text, within, otherwise = scripts.Down, between(1, newest), newest
			}
			if !cmd.Flags().Changed("from") {
				from = otherwise
			}
			if want := within(from); want != "" {
				return words.WithHint(&flagError{"from", strconv.Itoa(from), want},
					"the newest version is %d", newest)
			}
			_, err = fmt.Fprint(a.stdout, text(from))
			return err
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "print what takes the tables away")
	numberVar(cmd, &from, "from", "", 0, judgedLater,
		"the `version` that the database is at; default 0, and with --down the newest")
	return cmd
}
