package member

import (
	"encoding/hex"
	"fmt"

	"rollcall/internal/keystore"
	"rollcall/internal/secretfile"
	"rollcall/operator/otlp"
	"rollcall/quorum/wire"
)

// openExporter makes what sends slow requests and metrics to a collector, if there is one.
func (s *slowRequests) openExporter() (err error) {
	s.exporter, err = otlp.New(exporterConfig(s.m))
	return err
}

func exporterConfig(m *Member) otlp.Config {
	return otlp.Config{
		Settings: m.cfg.OTLP, Member: m.cfg.ID, InstanceID: func() string { return instanceID(m) }, Version: m.cfg.Version,
		Gatherer: m.adminHTTP.Gatherer(), StartTime: m.wallClock.Now(), Now: m.wallClock.Now, Dial: m.cfg.Network.DialCollector,
		Logger: m.log,
	}
}

// instanceID returns a name that no other member has: the ensemble's id and the member's, or before the ensemble begins and
// for a standalone server, the disk's id and the member's.
func instanceID(m *Member) string {
	if ensemble := m.ports.addressBook.EnsembleID(); ensemble != (wire.EnsembleID{}) {
		return fmt.Sprintf("%s/%d", hex.EncodeToString(ensemble[:]), m.cfg.ID)
	}
	return fmt.Sprintf("%016x/%d", uint64(m.DiskID()), m.cfg.ID)
}

// checkCollectorFiles reads the files for the collector of OpenTelemetry as otlp.New does, and returns their faults.
func checkCollectorFiles(s *otlp.Settings) (faults []*secretfile.Fault) {
	if !s.IsSet() {
		return nil
	}
	return append(keystore.CheckFiles(s.KeyOptions()), s.CheckHeaders()...)
}
