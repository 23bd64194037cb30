package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestFoldedKeepsWordsAndCommands(t *testing.T) {
	t.Parallel()
	prose := strings.TrimSpace(strings.Repeat("word ", 100))
	command := "    " + strings.Repeat("x", 300)
	got := strings.Split(folded(prose+"\n"+command+"\n"+prose), "\n")
	if strings.Join(strings.Fields(strings.Join(got, " ")), " ") != prose+" "+strings.TrimSpace(command)+" "+prose {
		t.Errorf("words were changed: %q", got)
	}
	commands := 0
	for _, line := range got {
		switch {
		case line == command:
			commands++
		case len(line) > 100 || len(line) < 4:
			t.Errorf("a line of %d: %q", len(line), line)
		}
	}
	if commands != 1 {
		t.Errorf("the command was broken: %q", got)
	}
}

func TestFailedConnectionIsOneLineForAllHosts(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://ada:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:1/app?sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = pgx.ConnectConfig(ctx, config)
	if err == nil {
		t.Fatal("somebody listens on port 1 or 2")
	}
	got := withoutDriver(errors.Join(err))
	want := `cannot connect to database "app" as "ada": ` +
		`127.0.0.1:1 (127.0.0.1): connection refused; 127.0.0.1:2 (127.0.0.1): connection refused`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnusableURLDoesNotShowItsPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"postgres://ada:s3cr/et@localhost/app",
		"postgres://ada:s3cr%et@localhost/app",
		"postgres://ada:s3cr et@localhost:x/app",
		"host=localhost password=s3cr port=x",
		"host=localhost password='s3cr",
		"host=localhost password=a s3cr port=5432",
		"postgres://ada:`: s3cr`: et@localhost:x/app",
		"s3cr",
		"postgres://ada:s3cr@localhost/app?sslmode=never",
	} {
		_, err := (&app{databaseURL: text}).open()
		if err == nil {
			t.Errorf("%s can be used", text)
			continue
		}
		message := err.Error()
		for _, part := range []string{"s3cr", "et@", "%et"} {
			if strings.Contains(message, part) || strings.HasSuffix(message, ": ") {
				t.Errorf("%s: %s", text, message)
			}
		}
	}
}
