package shop

import "testing"

func TestSell(t *testing.T) {
	s := &stock{waiting: make(chan int, 9)}
	o, err := Sell(s, 5, 3)
	if err != nil || o != (order{items: 5, price: 15, paid: true, note: "a note is for people"}) || s.left != 0 || len(s.sold) != 1 || !s.synced {
		t.Fatalf("%+v, %v, %+v", o, err, s)
	}
	select {
	case n := <-s.waiting:
		if n != 5 {
			t.Errorf("told of %d items", n)
		}
	default:
		t.Error("not told")
	}
	for _, items := range []int{0, 41} {
		if _, err := Sell(s, items, 1); err == nil {
			t.Errorf("%d items are sold", items)
		}
	}
	if _, err := Sell(s, 40, 1); err != errEmpty {
		t.Errorf("40 of 20 items: %v", err)
	}
	if len(s.waiting) > 0 {
		t.Error("told of nothing")
	}
}

func TestCount(t *testing.T) {
	if n := Count(4); n != 4 {
		t.Errorf("%d steps", n)
	}
}

func TestNone(t *testing.T) {
	if n := None(4); len(n) != 0 {
		t.Errorf("%d are none", n)
	}
}

// The sampler leaves this test out.
func TestAlwaysFails(t *testing.T) { t.Error("fails") }
