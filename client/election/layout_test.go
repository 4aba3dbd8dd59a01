package election

import "testing"

// Each layout knows the names that its library gives to candidates, and no others.
func TestLayouts(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	names := map[Layout]string{
		Latch:    "_c_01234567-89ab-4def-8123-456789abcdef-latch-0000000007",
		Selector: "_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000007",
		Kazoo:    id + "__lock__0000000007",
	}
	for layout := range names {
		for of, text := range names {
			name, ok := layout.contenderLayout().Parse(text)
			if ok != (of == layout) || ok && name.Number != 7 {
				t.Errorf("layout %d of %s: %+v, %t", layout, text, name, ok)
			}
		}
	}
	if _, ok := Layout(99).contenderLayout().Parse(names[Latch]); !ok {
		t.Error("a layout that does not exist is not that of Latch")
	}
}
