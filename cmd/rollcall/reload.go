package main

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/operator/logs"
)

// onHangup calls do at each SIGHUP until stop is called.
func onHangup(do func()) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				do()
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

// reloadConfig reloads the configuration, and sets the log level, the users of SASL and the limits of tenants. It logs
// which other keys differ from started; they take effect at the next start.
func (f *memberFlags) reloadConfig(w cli.IOStreams, args []string, started config.Config, log *logs.Log) {
	before := log.Level()
	cfg, _, err := config.Load(configFileArg(args), w.Env, f.config)
	if err != nil {
		log.UnfilteredLogger().Error("the configuration cannot be reloaded, so nothing has changed; correct it before the "+
			"next start", "err", err)
		return
	}
	level := f.logLevel(cfg)
	line := []any{"member", started.MyID, "logLevel", logs.LevelName(level), "before", logs.LevelName(before)}
	if later := diffKeys(started.Keys, cfg.Keys); len(later) > 0 {
		line = append(line, "later", strings.Join(later, ", ")) // take effect at the next start
	}
	if mine, now := started.Login.Users, cfg.Login.Users; mine != nil && now != nil && !mine.Equal(now) {
		mine.ReplaceWith(now) // the member reads this object
		line = append(line, "users", now.Count())
	}
	if mine, now := started.Limits.Tenants, cfg.Limits.Tenants.Rules(); !slices.Equal(mine.Rules(), now) {
		_ = mine.Replace(now) // Load has checked them
		line = append(line, "limits", len(now))
	}
	log.SetLevel(level)
	log.UnfilteredLogger().Info("configuration reloaded", line...)
}

// findChangedKeys reloads the configuration, and returns the changed keys that need a new process. It returns
// none if the configuration is invalid, because no process would start with it.
func (f *memberFlags) findChangedKeys(w cli.IOStreams, args []string, started config.Config, log *logs.Log) []string {
	cfg, _, err := config.Load(configFileArg(args), w.Env, f.config)
	if err != nil {
		log.Logger().Error("the configuration cannot be reloaded, so this member starts with the one before; correct it "+
			"before the next start of the process", "err", err)
		return nil
	}
	return diffKeys(started.Keys, cfg.Keys)
}

// diffKeys returns the names of the keys whose values differ, other than logLevel and the limits of tenants.
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
	changed = slices.AppendSeq(changed, maps.Keys(values)) // removed keys
	changed = slices.DeleteFunc(changed, func(name string) bool {
		return name == "logLevel" || strings.HasPrefix(name, "limit.") || strings.HasSuffix(name, ".N") || strings.HasSuffix(name, ".*")
	})
	slices.Sort(changed)
	return slices.Compact(changed)
}
