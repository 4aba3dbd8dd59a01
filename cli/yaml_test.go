package cli

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A library reads the YAML of any value as it reads its JSON.
func TestYAMLIsRead(t *testing.T) {
	values := []any{
		nil, true, 0, -1.5, 1e21, "", "x",
		[]any{},
		map[string]any{},
		[]any{[]any{[]any{}, "a"}, []any{1, 2}},
		map[string]any{"a": map[string]any{"b": []any{map[string]any{}}}},
		"yes", "No", "null", "~", "0x1F", "1_000", "1:20", "2026-11-27", ".inf", "=", "<<", "- a", "a: b", "a #b", "a ", " a", "a  b", "{}", "[", `"`, `\`, "\n", "\u2028", "'", "@a", "`", "%", "&a", "*a", "!a", "?", "|", ">",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		values = append(values, anyValue(random, 3))
	}
	for _, v := range values {
		text, err := encodeObject("yaml", v)
		if err != nil {
			t.Fatal(err)
		}
		var read any
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Errorf("%#v: %v:\n%s", v, err, text)
			continue
		}
		got, err := json.Marshal(read)
		if err != nil {
			t.Errorf("%#v: %v:\n%s", v, err, text)
			continue
		}
		if want, _ := json.Marshal(v); !bytes.Equal(got, want) {
			t.Errorf("%s\nis read as %s from\n%s", want, got, text)
		}
	}
}

// anyValue returns a value that is nested at most so deep.
func anyValue(random *rand.Rand, depth int) any {
	switch n := random.IntN(6); {
	case depth > 0 && n == 0:
		list := []any{}
		for range random.IntN(4) {
			list = append(list, anyValue(random, depth-1))
		}
		return list
	case depth > 0 && n < 3:
		object := map[string]any{}
		for range random.IntN(4) {
			object[anyText(random)] = anyValue(random, depth-1)
		}
		return object
	case n == 3:
		return random.IntN(1000) - 500
	}
	return anyText(random)
}

// anyText returns a text of characters that mean something in YAML or to a terminal, and of others.
func anyText(random *rand.Rand) string {
	characters := []rune("aZ09 .,:;-_#'\"\\/!&*?|>%@`{}[]~=<\n\t\r\x00\x1b\x7f\u0085\u009b\u2028\u202e\ufeffé梨\U0001f600\U000e0041yesnoYESNO")
	text := make([]rune, random.IntN(6))
	for i := range text {
		text[i] = characters[random.IntN(len(characters))]
	}
	return string(text)
}
