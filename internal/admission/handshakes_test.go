package admission

import "testing"

// A first message that is complete when the place is already lost does not get the place back.
func TestLostPlaceStaysLost(t *testing.T) {
	l := NewHandshakeLimiter[string](1)
	first, _ := l.Admit("a")
	second, loser := l.Admit("b")
	if loser != first || loser.Owner() != "a" || first.MarkHelloComplete() || !second.MarkHelloComplete() {
		t.Error("the first one keeps its place")
	}
	if third, loser := l.Admit("c"); third != nil || loser != nil {
		t.Error("the second one has lost its place, although it has sent its first message")
	}
	if !first.End() || second.End() || l.UnderWay() != 0 || l.silentClients.Len() != 0 {
		t.Errorf("%d places are taken in the end, %d of silent clients", l.UnderWay(), l.silentClients.Len())
	}
}
