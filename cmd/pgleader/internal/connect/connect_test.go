package connect

import (
	"strings"
	"testing"
)

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
		_, err := Open(text)
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

func TestUnusableURLSaysWhereItComesFrom(t *testing.T) {
	const unusable = "postgres://localhost:port/"
	t.Setenv("PGPORT", "port")
	for _, row := range []struct{ url, variable, want string }{
		{unusable, unusable, "--database-url"},
		{"", unusable, "DATABASE_URL"},
		{"", "", "the PG* variables"},
	} {
		t.Setenv("DATABASE_URL", row.variable)
		_, err := Open(row.url)
		if err == nil || !strings.HasPrefix(err.Error(), row.want+" cannot be used: ") {
			t.Errorf("%+v: %v", row, err)
		}
	}
}
