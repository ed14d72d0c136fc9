// Package store is a signpost: the stores are its subpackages. Each is a
// ma2h.Store and a ma2h.Outbox.
//
//   - One process, and acting again after a restart does no harm:
//     ma2h.NewMemoryStore, in the root package.
//   - One machine, any number of processes and restarts: sqlstore/sqlite, a
//     file on a local disk and no server.
//   - Many replicas: sqlstore on the PostgreSQL that is there.
//   - Many replicas, and Redis is what is there: redisstore. Read first what
//     it says about losing writes.
//   - Something else: implement the interfaces and run storetest on it.
package store
