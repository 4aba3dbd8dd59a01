package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// runHash runs rollcall hash, and returns what it prints, and its error.
func runHash(in string, typed []string, args ...string) (string, error) {
	var out bytes.Buffer
	w := IOStreams{In: strings.NewReader(in), Out: &out, Err: io.Discard}
	if typed != nil {
		w.ReadPassword = func(string) (string, error) {
			if len(typed) == 0 {
				return "", errors.New("interrupted")
			}
			next := typed[0]
			typed = typed[1:]
			return next, nil
		}
	}
	cmd := newHash(w)
	cmd.SetArgs(append([]string{}, args...)) // with nil it would take those of the test binary
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(io.Discard)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

// The digest is the one that ZooKeeper makes, and no output has the password.
func TestHash(t *testing.T) {
	const super = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n"
	long := strings.Repeat("x", maxPassword)
	tests := []struct {
		in    string
		typed []string
		args  []string
		want  string
		err   string
	}{
		{in: "secret\n", args: []string{"super"}, want: super},
		{in: "secret", args: []string{"super"}, want: super},
		{in: "secret\n", args: []string{"--fingerprint", "super"}, want: "79fd7e16\n"},
		{in: "secret\r\nmore\n", args: []string{"super"}, want: super},
		{in: "secret\n", args: []string{"--alg", "sha-256", "super"}, want: "super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=\n"},
		{typed: []string{"secret", "secret"}, args: []string{"super"}, want: super},
		{in: long + "\n", args: []string{"u"}, want: "u:"},
		{in: long + "x\n", args: []string{"u"}, err: "over 4096 bytes"},
		{typed: []string{"secret", "secrte"}, args: []string{"super"}, err: "the two passwords differ"},
		{typed: []string{"secret"}, args: []string{"super"}, err: "interrupted"},
		{typed: []string{""}, args: []string{"super"}, err: "the password is empty"},
		{in: "\nsecret", args: []string{"super"}, err: "the password is empty"},
		{in: "sec\xffret", args: []string{"super"}, err: "not UTF-8"},
		{in: "x", args: []string{"super:secret"}, err: "is no user"},
		{in: "x", args: []string{""}, err: "is no user"},
		{in: "x", args: []string{"--alg", "md5", "u"}, err: "must be SHA1"},
		{in: "x", err: "one user"},
	}
	for _, tt := range tests {
		got, err := runHash(tt.in, tt.typed, tt.args...)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%q %q %q: %q, %v", tt.in, tt.typed, tt.args, got, err)
		}
		if strings.Contains(got, "secret") || strings.Contains(got, "secrte") {
			t.Errorf("%q shows the password", got)
		}
	}
}
