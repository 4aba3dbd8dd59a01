package member

import (
	"strings"
	"testing"
	"time"

	"rollcall/config"
)

// Package config states the defaults of the limits. A member whose caller has not set them does not start.
func TestRequiredLimits(t *testing.T) {
	full := Config{ID: 1, Servers: []Server{{ID: 1}}, Settings: config.Settings{Tick: time.Second}.WithDefaults()}
	if cfg := full; cfg.checkAndComplete() != nil {
		t.Error("the defaults are rejected")
	}
	for name, clear := range map[string]func(*Config){
		"InitLimit":        func(c *Config) { c.InitLimit = 0 },
		"SyncLimit":        func(c *Config) { c.SyncLimit = 0 },
		"HeartbeatTimeout": func(c *Config) { c.HeartbeatTimeout = 0 },
		"StoreStallLimit":  func(c *Config) { c.StoreStallLimit = 0 },
	} {
		cfg := full
		clear(&cfg)
		if err := cfg.checkAndComplete(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
