package member

import (
	"context"
	"fmt"
)

// condemn says that this member's state is damaged. It never blocks; one reason is enough.
func (m *Member) condemn(why string) {
	select {
	case m.damage <- why:
	default:
	}
}

// damageLoop ends this member's service once its state is known to be damaged, now or in a
// former run: another one leads, and its clients go there. It stays in the ensemble, stores
// and votes, for its log is sound; but only with an empty folder it serves again. Alone it
// has nobody to get the state from, so it ends, and begins anew with what is on its disk.
func (m *Member) damageLoop(ctx context.Context) error {
	if why := m.node.Damage(); why != "" {
		m.log.Error("this member does not serve: its state was found to be damaged; stop it, empty its data folder and start it again", "why", why)
		m.retire()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-m.damage:
			switch {
			case m.node.Damage() != "": // told once more
			case len(m.cfg.Servers) == 1:
				return fmt.Errorf("member: the state is damaged: %s", why)
			default:
				if err := m.damaged(ctx, why); err != nil {
					return err
				}
			}
		}
	}
}

// damaged takes this member out of service. Whoever is to lead in its place gets the log
// from it first; if nobody takes over, this member falls silent all the same.
func (m *Member) damaged(ctx context.Context, why string) error {
	over, cancel := context.WithTimeout(ctx, m.cfg.Tick)
	defer cancel()
	if err := m.node.HandOver(over); err != nil {
		m.log.Warn("leadership not handed over", "err", err)
	}
	m.log.Error("this member stops serving: its state is damaged; stop it, empty its data folder and start it again", "why", why)
	err := m.node.SetDamage(why)
	m.retire()
	return err
}

func (m *Member) retire() {
	m.terms.stall()
	m.server.Retire()
}
