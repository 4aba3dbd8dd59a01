package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// The steps of this file do what operators do, by the commands that the docs name.

// upgradeMembers upgrades all members but one, as docs/upgrade.md advises to those who want to go back, and rolls them back.
func upgradeMembers(s *stage) error {
	leader, others, err := s.listRoles()
	if err != nil {
		return err
	}
	names := append(others[1:], leader) // the first one stays
	for _, name := range names {
		if err := s.changeMember(target.Fault{Kind: target.Upgrade, Member: name}, "upgrade of "+s.describeMember(name)); err != nil {
			return err
		}
	}
	if err := s.waitTimeouts(1); err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if err := s.undoChange("rollback of " + s.describeMember(name)); err != nil {
			return err
		}
	}
	return nil
}

// bringsIn returns steps that bring a new member in, read from it what the clients have written, and undo that. In the
// texts, %s stands for the follower at which that is done.
func bringsIn(kind target.Kind, text, undo string) func(*stage) error {
	return func(s *stage) error {
		name, err := s.pickFollower()
		if err != nil {
			return err
		}
		before := memberNames(s.target)
		if err := s.changeMember(target.Fault{Kind: kind, Member: name}, fmt.Sprintf(text, name)); err != nil {
			return err
		}
		if err := s.readNew(before); err != nil {
			return err
		}
		return s.undoChange(fmt.Sprintf(undo, name))
	}
}

// readNew lets the clients run for a session timeout, and reads what they have written from the members that are not
// among those before.
func (s *stage) readNew(before []string) error {
	if err := s.waitTimeouts(1); err != nil {
		return err
	}
	for _, m := range s.target.Members() {
		if slices.Contains(before, m.Name) {
			continue
		}
		if err := s.clients.load.ReadCopy(s.ctx, result.Member{Name: m.Name, Clients: m.Clients}, judge.Copy{Kind: judge.Joined, From: s.sinceStart()}); err != nil {
			return err
		}
	}
	return nil
}

// restoreBackup makes a backup, begins another ensemble with it, and reads it from each of its members.
func restoreBackup(s *stage) (err error) {
	name, err := s.pickFollower()
	if err != nil {
		return err
	}
	file := filepath.Join(os.TempDir(), "rollcall-drill-"+rand.Text()[:8]+".backup")
	made := judge.Copy{Kind: judge.Restored, From: s.sinceStart()}
	if err := s.breakMember(target.Fault{Kind: target.Backup, Member: name, File: file}, "backup at "+s.describeMember(name)); err != nil {
		return err
	}
	made.To = s.sinceStart()
	s.noteHealed(s.openFaults[len(s.openFaults)-1].at)
	ends := s.clientFault("restore", "another ensemble begins with the backup")
	defer ends()
	restored, err := s.own(s.ctx, target.ProcessConfig{Restore: file})
	if err != nil {
		return fmt.Errorf("the ensemble that begins with the backup: %w", err)
	}
	defer func() { err = errors.Join(err, closeOwn(s.ctx, restored)) }()
	for _, m := range restored.Members() {
		read := result.Member{Name: "restored-" + m.Name, Clients: m.Clients}
		err = errors.Join(err, s.clients.load.ReadCopy(s.ctx, read, made))
	}
	return errors.Join(err, s.repairAll())
}

func rotateSecret(s *stage) error {
	return s.rotateSteps(target.Secret, "the secret is rotated", map[string]string{
		target.Both: "gets a second secret", target.New: "has the new secret alone",
	})
}

func rotateKeys(s *stage) error {
	return s.rotateSteps(target.Keys, "the certificates are rotated", map[string]string{
		target.Both: "believes both authorities", target.Own: "gets a new certificate", target.New: "believes the new authority alone",
	})
}

// rotateSteps makes the steps of a rotation, each at one member after the other. No client may lose its connection meanwhile.
func (s *stage) rotateSteps(kind target.Kind, text string, steps map[string]string) error {
	began := s.sinceStart()
	for _, mode := range []string{target.Both, target.Own, target.New} {
		if steps[mode] == "" {
			continue
		}
		for _, name := range memberNames(s.target) {
			if err := s.changeMember(target.Fault{Kind: kind, Member: name, Mode: mode}, "member "+name+" "+steps[mode]); err != nil {
				return err
			}
		}
	}
	if err := s.waitFor(settleTime); err != nil {
		return err
	}
	s.windows = append(s.windows, judge.Window{Kind: judge.Calm, From: began, To: s.sinceStart(), Text: text})
	return s.repairAll()
}

// moveIn has Rollcall take the place of ZooKeeper.
func moveIn(s *stage) error {
	window := judge.Window{Kind: judge.Moved, From: s.sinceStart(), Text: "Rollcall takes the place of ZooKeeper"}
	if err := s.breakMember(target.Fault{Kind: target.MoveIn, Member: memberNames(s.target)[0]}, window.Text); err != nil {
		return err
	}
	leads := func(ctx context.Context) error { _, err := s.currentLeader(ctx); return err }
	if err := awaitWell(s.ctx, leads, wellLimit); err != nil {
		return err
	}
	window.To = s.sinceStart()
	s.windows = append(s.windows, window)
	if err := s.awaitWell(wellLimit); err != nil {
		return err
	}
	if err := s.repairAll(); err != nil {
		return err
	}
	return s.waitTimeouts(1)
}
