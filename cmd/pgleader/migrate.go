package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "create pgleader's tables, or bring them up to date",
		Long: `migrate changes pgleader's tables. Their version is kept in leader_schema_migrations, beside
an application's own schema_migrations, in the format of golang-migrate; its command, this
one and migrations.Up wait for each other.

The tables are where search_path finds them already, else in its first schema.`,
		Example: `  pgleader migrate up
  pgleader migrate print | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return hint(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), "see '%s --help'", cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.migrateUpCommand(), a.migrateDownCommand(), a.migrateVersionCommand(), a.migratePrintCommand())
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
			return a.migrate(cmd.Context(), func(ctx context.Context, o *operator, _ migrations.State) error {
				return migrations.Up(ctx, o.pool)
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
			if cmd.Flags().Changed("steps") && steps < 1 {
				return hint(fmt.Errorf("--steps is %d, want at least 1", steps), "leave it out to take everything away")
			}
			if !yes {
				return hint(errors.New("down would drop tables with everything in them"),
					"add --yes if that is meant; 'pgleader migrate print --down' shows the statements")
			}
			return a.migrate(cmd.Context(), func(ctx context.Context, o *operator, state migrations.State) error {
				target := 0
				if steps > 0 {
					target = max(0, state.Version-steps)
				}
				return migrations.Down(ctx, o.pool, target)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().IntVar(&steps, "steps", 0, "how many `versions` to take back; default all")
	return cmd
}

// migrate runs a change and prints what it came from and went to.
func (a *app) migrate(ctx context.Context, change func(context.Context, *operator, migrations.State) error) error {
	o, err := a.operator()
	if err != nil {
		return err
	}
	defer o.close()
	before, err := migrations.Version(ctx, o.pool)
	if err != nil {
		return err
	}
	if err := change(ctx, o, before); err != nil {
		return err
	}
	after, err := migrations.Version(ctx, o.pool)
	if err != nil {
		return err
	}
	if before.Version == after.Version {
		fmt.Fprintf(a.stdout, "nothing to do: %s\n", versionText(after))
	} else {
		fmt.Fprintf(a.stdout, "from version %d to version %d\n", before.Version, after.Version)
	}
	return nil
}

func versionText(s migrations.State) string {
	text := fmt.Sprintf("the database is at version %d of %d", s.Version, s.Newest)
	switch {
	case s.Dirty:
		text += ", dirty"
	case s.Version > s.Newest:
		text = fmt.Sprintf("the database is at version %d, newer than this program's %d", s.Version, s.Newest)
	case s.Version == 0:
		text = "the database has none of pgleader's tables"
	}
	return text
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
			o, err := a.operator()
			if err != nil {
				return err
			}
			defer o.close()
			state, err := migrations.Version(cmd.Context(), o.pool)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, versionText(state))
			if state.Dirty || state.Version < state.Newest {
				return errNo
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
			if from < 0 {
				return fmt.Errorf("--from is %d, want a version", from)
			}
			direction := "up"
			if down {
				direction = "down"
			}
			text, err := script(direction, from, cmd.Flags().Changed("from"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "print what takes the tables away")
	cmd.Flags().IntVar(&from, "from", 0, "the `version` that the database is at; default 0, and with --down the newest")
	return cmd
}

// script joins the files from a version on, and the statements that keep the version as migrations.Up and
// golang-migrate do.
func script(direction string, from int, limited bool) (string, error) {
	names, err := fs.Glob(migrations.FS, "*."+direction+".sql")
	if err != nil {
		return "", err
	}
	if direction == "down" {
		slices.Reverse(names)
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n\n")
	newest := 0
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return "", err
		}
		newest = max(newest, version)
		if limited && (direction == "up" && version <= from || direction == "down" && version > from) {
			continue
		}
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "-- %s\n\n%s\n", name, text)
	}
	if limited && direction == "up" && from >= newest {
		return "", fmt.Errorf("nothing comes after version %d: the newest is %d", from, newest)
	}
	if direction == "down" {
		b.WriteString("DROP TABLE leader_schema_migrations;\n\nCOMMIT;\n")
		return b.String(), nil
	}
	fmt.Fprintf(&b, `CREATE TABLE IF NOT EXISTS leader_schema_migrations (
    version bigint NOT NULL PRIMARY KEY,
    dirty boolean NOT NULL
);
DELETE FROM leader_schema_migrations;
INSERT INTO leader_schema_migrations (version, dirty) VALUES (%d, false);

COMMIT;
`, newest)
	return b.String(), nil
}
