package member

import (
	"reflect"
	"slices"
	"testing"

	"rollcall/znode"
)

// Each rule has a key of its own, by which a difference is reported.
func TestRuleKeys(t *testing.T) {
	seen := map[string]bool{}
	for i := range reflect.TypeFor[znode.Rules]().NumField() {
		var r znode.Rules
		switch f := reflect.ValueOf(&r).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Uint64:
			f.SetUint(1)
		default:
			f.SetString("x")
		}
		keys := ruleKeys(r, znode.Rules{})
		if len(keys) != 1 || seen[keys[0]] || !slices.Equal(keys, ruleKeys(znode.Rules{}, r)) {
			t.Errorf("a difference in %s: %q", reflect.TypeFor[znode.Rules]().Field(i).Name, keys)
			continue
		}
		seen[keys[0]] = true
	}
	if keys := ruleKeys(znode.Rules{SASL: true}, znode.Rules{SASL: true}); keys != nil {
		t.Errorf("equal rules: %q", keys)
	}
}
