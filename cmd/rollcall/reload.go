package main

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/member"
	"rollcall/operator/logs"
)

// reloadOnHangup reads the configuration again whenever the process gets SIGHUP, until stop is called.
// cfg is the configuration that the member has started with.
func (f *memberFlags) reloadOnHangup(w cli.IOStreams, args []string, cfg config.Config, log *logs.Log) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				f.reloadConfig(w, args, cfg, log)
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(over)
		<-ended
	}
}

// reloadFiles makes a member read its files again whenever the process gets SIGHUP, until ctx ends.
func reloadFiles(ctx context.Context, m *member.Member) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
			m.ReloadSecrets()
		case <-ctx.Done():
			return
		}
	}
}

// reloadConfig reads the configuration again, and sets the level of the log and the users of SASL. The other keys have an effect when
// the member is started again; reload logs which of them have changed.
func (f *memberFlags) reloadConfig(w cli.IOStreams, args []string, started config.Config, log *logs.Log) {
	before := log.Level()
	cfg, _, err := config.Load(configFileOf(args), w.Env, f.config)
	if err != nil {
		log.UnfilteredLogger().Error("the configuration cannot be read again, so nothing has changed; correct it before the next start", "err", err)
		return
	}
	level := f.logLevel(cfg)
	line := []any{"member", started.MyID, "logLevel", logs.LevelName(level), "before", logs.LevelName(before)}
	if later := diffKeys(started.Keys, cfg.Keys); len(later) > 0 {
		line = append(line, "later", strings.Join(later, ", ")) // at the next start
	}
	if mine, now := started.Login.Users, cfg.Login.Users; mine != nil && now != nil && !mine.Equal(now) {
		mine.ReplaceWith(now) // the member's own
		line = append(line, "users", now.Count())
	}
	log.SetLevel(level)
	log.UnfilteredLogger().Info("configuration read again", line...)
}

// changedSince reads the configuration again, and returns the keys whose new values only another process takes over. A configuration
// that cannot be read has none: no process starts with it.
func (f *memberFlags) changedSince(w cli.IOStreams, args []string, started config.Config, log *logs.Log) []string {
	cfg, _, err := config.Load(configFileOf(args), w.Env, f.config)
	if err != nil {
		log.Logger().Error("the configuration cannot be read again, so this member starts with the one before; correct it before the next start of the process", "err", err)
		return nil
	}
	return diffKeys(started.Keys, cfg.Keys)
}

// diffKeys returns the names of the keys, but logLevel, that have other values in now than in then.
func diffKeys(then, now []config.Key) (changed []string) {
	values := map[string]string{}
	for _, k := range then {
		values[k.Name] = k.Value
	}
	for _, k := range now {
		if was, known := values[k.Name]; !known || was != k.Value {
			changed = append(changed, k.Name)
		}
		delete(values, k.Name)
	}
	changed = slices.AppendSeq(changed, maps.Keys(values)) // they are gone
	changed = slices.DeleteFunc(changed, func(name string) bool {
		return name == "logLevel" || strings.HasSuffix(name, ".N") || strings.HasSuffix(name, ".*")
	})
	slices.Sort(changed)
	return slices.Compact(changed)
}
