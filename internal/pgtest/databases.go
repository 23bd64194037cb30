package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/migrations"
)

// databases hands out databases of one server. Their names begin with pgtest_ and a run number; the
// run holds an advisory lock of that number as long as it lives. So runs that share a server never
// meet in a name, and a later run can tell which databases belong to the dead.
type databases struct {
	mu       sync.Mutex
	run      uint32
	owner    *pgx.Conn // holds the run's advisory lock
	template string    // "" until somebody needs a migrated database
	count    atomic.Int64
}

// lockClass is the first key of the advisory locks, "pgtt" read as a number, to stay clear of
// anybody else's.
const lockClass = 0x70677474

// CreateDatabase makes a fresh database, with the schema of package migrations if migrated, and
// returns its URL.
func (s *Server) CreateDatabase(ctx context.Context, migrated bool) (string, error) {
	template, err := s.databases.prepare(ctx, s, migrated)
	if err != nil {
		return "", fmt.Errorf("pgtest: create a database: %w", err)
	}
	name := s.databases.name(strconv.FormatInt(s.databases.count.Add(1), 10))
	if err := create(ctx, s.URL, name, template); err != nil {
		return "", fmt.Errorf("pgtest: create a database: %w", err)
	}
	return withDatabase(s.URL, name)
}

// DropDatabase drops what CreateDatabase made, whoever is connected.
func (s *Server) DropDatabase(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("pgtest: drop a database: %w", err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if !strings.HasPrefix(name, "pgtest_") {
		return fmt.Errorf("pgtest: drop a database: %q is not of this package's making", name)
	}
	if err := execute(ctx, s.URL, dropStatement(name)); err != nil {
		return fmt.Errorf("pgtest: drop a database: %w", err)
	}
	return nil
}

// prepare registers the run, at its first call, and returns the template to copy.
func (d *databases) prepare(
	ctx context.Context, s *Server, migrated bool,
) (template string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner == nil {
		if err := d.register(ctx, s.URL); err != nil {
			return "", err
		}
	}
	if !migrated {
		return "template0", nil
	}
	if d.template == "" {
		name := d.name("template")
		if err := migrate(ctx, s.URL, name); err != nil {
			return "", errors.Join(err, execute(context.WithoutCancel(ctx), s.URL, dropStatement(name)))
		}
		d.template = name
	}
	return d.template, nil
}

func (d *databases) name(suffix string) string {
	return fmt.Sprintf("pgtest_%08x_%s", d.run, suffix)
}

func (d *databases) register(ctx context.Context, serverURL string) error {
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return err
	}
	var b [4]byte
	rand.Read(b[:])
	d.run = binary.BigEndian.Uint32(b[:])
	_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", int32(lockClass), int32(d.run))
	if err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return err
	}
	if err := sweep(ctx, conn, d.run); err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return fmt.Errorf("drop what dead runs left: %w", err)
	}
	d.owner = conn
	return nil
}

// sweep drops the databases of runs that no longer hold their lock.
func sweep(ctx context.Context, conn *pgx.Conn, own uint32) error {
	rows, err := conn.Query(ctx,
		`SELECT datname FROM pg_database WHERE datname ~ '^pgtest_[0-9a-f]{8}_'`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		run, err := strconv.ParseUint(name[len("pgtest_"):len("pgtest_")+8], 16, 32)
		if err != nil || uint32(run) == own {
			continue
		}
		var dead bool
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", int32(lockClass), int32(run)).
			Scan(&dead)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		if _, err := conn.Exec(ctx, dropStatement(name)); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", int32(lockClass), int32(run))
		if err != nil {
			return err
		}
	}
	return nil
}

// migrate makes the template as an application would, so that its database knows its version too.
func migrate(ctx context.Context, serverURL, name string) error {
	if err := create(ctx, serverURL, name, "template0"); err != nil {
		return err
	}
	u, err := withDatabase(serverURL, name)
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", u)
	if err != nil {
		return err
	}
	defer db.Close() // a template must have no connections
	return migrations.Up(ctx, db)
}

func create(ctx context.Context, serverURL, name, template string) error {
	return execute(ctx, serverURL, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" TEMPLATE "+pgx.Identifier{template}.Sanitize())
}

func dropStatement(name string) string {
	return "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"
}

// execute runs SQL, of any number of statements, on a connection of its own. It leaves nothing
// behind: a test that counts goroutines or restarts the server could trip over that.
func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func withDatabase(rawURL, name string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// close drops the run's databases, unless the whole server goes.
func (d *databases) close(s *Server) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer d.owner.Close(ctx)
	if s.host != nil {
		return nil
	}
	rows, err := d.owner.Query(ctx,
		"SELECT datname FROM pg_database WHERE starts_with(datname, $1)", d.name(""))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		_, dropErr := d.owner.Exec(ctx, dropStatement(name))
		err = errors.Join(err, dropErr)
	}
	return err
}
