package wake

import (
	"net/url"
	"strings"
)

// BadURL is the error for a URL that the driver can't parse. Its text has no part of a password:
// the driver's own text, which errors.As still reaches, is in it only where that is certain.
func BadURL(name, rawURL string, err error) error {
	return &urlError{
		text: name + ": Config.URL cannot be used: " + reason(rawURL, err.Error()) +
			"; write postgres://user:password@host:5432/database, " +
			"with special characters in the password percent-encoded",
		err: err,
	}
}

// endsEarly reports whether the URL's password seems to have a slash in it: both drivers then take
// what is before it for the host, and the rest for the database, which they show in their errors.
func endsEarly(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && strings.HasPrefix(u.Scheme, "postgres") &&
		strings.Contains(u.EscapedPath(), "@")
}

type urlError struct {
	text string
	err  error
}

func (e *urlError) Error() string { return e.text }

func (e *urlError) Unwrap() error { return e.err }

// reason is the driver's text where it is certain what of the URL is the password. In a malformed
// one it is not: net/url and lib/pq print all of it, and both drivers quote what they stumble over.
func reason(rawURL, text string) string {
	u, err := url.Parse(rawURL)
	if err != nil || rawURL != "" && u.Scheme != "postgres" && u.Scheme != "postgresql" ||
		strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // the end of a password with / ? or #
		return "it cannot be parsed"
	}
	if shown := strings.LastIndex(text, "`: "); shown >= 0 { // pgx shows the URL before that
		text = text[shown+len("`: "):]
	}
	password, _ := u.User.Password()
	query := u.Query()
	for _, secret := range []string{password, query.Get("password"), query.Get("sslpassword")} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}
