package shell

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/client"
)

// These are the options, words and messages of zkCli.sh 3.8.0.
func TestOptions(t *testing.T) {
	verbs := verbTable()
	for _, tt := range []struct{ line, want string }{
		{"get /q", "get /q map[]"},
		{"get -s /q", "get /q map[s:]"},
		{"get /q -s", "get /q map[s:]"},
		{"get -sw /q", "get /q map[s: w:]"},
		{"get -ss /q", "get /q map[s:]"},
		{"get -- -s", "get -s map[]"},
		{"get - /q", "get - /q map[]"},
		{"get -x /q", "Unrecognized option: -x"},
		{"get -sx /q", "Unrecognized option: -sx"},
		{"get --s /q", "Unrecognized option: --s"},
		{"get -s=1 /q", "Unrecognized option: -s=1"},
		{"create /q -5", "Unrecognized option: -5"},
		{"create /q -- -5", "create /q -5 map[]"},
		{"create -t 5 /q", "create /q map[t:5]"},
		{"create -t5 /q", "create /q map[t:5]"},
		{"create -t=5 /q", "create /q map[t:5]"},
		{"create -t -5 /q", "create /q map[t:-5]"},
		{"create -st5 /q", "create /q map[s: t:5]"},
		{"create -t", "Missing argument for option: t"},
		{"create -t -s /q", "Missing argument for option: t"},
		{"create --t 5 /q", "Unrecognized option: --t"},
		{"set /q -v", "Missing argument for option: v"},
		{"reconfig -file a -members b", "reconfig map[file:a members:b]"},
		{"reconfig -v -add x", "Missing argument for option: v"},
		{"reconfig -add=x", "reconfig map[add:x]"},
		{"delquota -n -b /q", "The option 'b' was specified but an option from this group has already been selected: 'n'"},
		{"delquota -n -n /q", "delquota /q map[n:]"},
		{"delquota /q", "delquota /q map[]"},
		{"setquota /q", "Missing required option: [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]"},
		{"setquota -n 5 /q", "setquota /q map[n:5]"},
		{"setquota -n -1 /q", "setquota /q map[n:-1]"},
	} {
		words := strings.Fields(tt.line)
		a, err := verbs[words[0]].options.parse(words)
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Join(a.words, " ") + " " + fmt.Sprint(a.optionValues)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.line, got, tt.want)
		}
	}
}

// Numbers of options have the range of Java's types.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		text string
		bits int
		want string
	}{
		{"", 32, "-7"},
		{"2147483647", 32, "2147483647"},
		{"2147483648", 32, "-v argument must be an int value"},
		{"2147483648", 64, "2147483648"},
		{"9223372036854775808", 64, "-v argument must be a long value"},
		{"x", 32, "-v argument must be an int value"},
	} {
		a := arguments{optionValues: map[string]string{}}
		if tt.text != "" {
			a.optionValues["v"] = tt.text
		}
		n, err := a.intFlag("v", tt.bits, -7)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q of %d bits: %s, want %s", tt.text, tt.bits, got, tt.want)
		}
	}
}

// No command line makes a parser panic. The words that remain are words of the line, in order.
func FuzzOptions(f *testing.F) {
	for _, line := range []string{"create -est5 /a b", "get -- -s", "setquota -n -b 5", "reconfig -add=x -file", "ls -? - --"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := splitLine(line)
		for name, v := range verbTable() {
			a, err := v.options.parse(append([]string{name}, words...))
			if err != nil {
				continue
			}
			kept := 0
			for _, w := range words {
				if kept+1 < len(a.words) && a.words[kept+1] == w {
					kept++
				}
			}
			if a.words[0] != name || kept+1 != len(a.words) {
				t.Fatalf("%s %q: the words are %q", name, words, a.words)
			}
		}
	})
}

// The flags of create choose the mode, or exclude each other.
func TestCreateMode(t *testing.T) {
	create := verbTable()["create"]
	for _, tt := range []struct {
		flags string
		want  client.Mode
		err   string
	}{
		{"", client.Persistent, ""},
		{"-e", client.Ephemeral, ""},
		{"-s", client.PersistentSequential, ""},
		{"-e -s", client.EphemeralSequential, ""},
		{"-c", client.Container, ""},
		{"-t 5", client.Persistent.WithTTL(5 * time.Millisecond), ""},
		{"-s -t 5", client.PersistentSequential.WithTTL(5 * time.Millisecond), ""},
		{"-c -e", client.Mode{}, "-c cannot be combined with -s or -e"},
		{"-c -s", client.Mode{}, "-c cannot be combined with -s or -e"},
		{"-e -t 5", client.Mode{}, "TTLs cannot be used with Ephemeral znodes"},
		{"-c -t 5", client.Mode{}, "TTLs cannot be used with Container znodes"},
		{"-t 0", client.Mode{}, "ttl must be positive"},
	} {
		a, err := create.options.parse(strings.Fields("create " + tt.flags + " /q"))
		if err != nil {
			t.Fatal(err)
		}
		mode, err := createMode(a)
		if !reflect.DeepEqual(mode, tt.want) || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("create %s: %+v, %v; want %+v, %q", tt.flags, mode, err, tt.want, tt.err)
		}
	}
}

// A verb with fewer words than it needs shows its usage. The value of an option is none of them.
func TestTooFewWords(t *testing.T) {
	verbs := verbTable()
	for _, tt := range []struct {
		line string
		want error
	}{
		{"setquota -n 5", errUsage},
		{"setquota -n 5 /q", nil},
		{"delquota -n", errUsage},
		{"delquota -n /q", nil},
		{"set -v 1 /q", errUsage},
		{"set -v 1 /q x", nil},
	} {
		words := strings.Fields(tt.line)
		if _, err := verbs[words[0]].parseArguments(new(Shell), words); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.line, err, tt.want)
		}
	}
}
