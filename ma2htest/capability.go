package ma2htest

import (
	"net/http"
	"strings"

	"github.com/ma2h/ma2h-go/types"
)

const (
	defaultFreshness = 90 // seconds
	inboxPath        = "/v1/inbox"
)

func defaultCapability(version string, minor int) types.Capability {
	parts := int64(16)
	c := types.Capability{
		Version:             version,
		MaxBodyBytes:        64 << 10,
		MaxPartBytes:        256 << 10,
		MaxContextParts:     &parts,
		AuthSchemes:         []string{"bearer", "apikey"},
		CallbackAuthSchemes: []string{"hmac", "bearer", "apikey"},
		SignatureAlgs:       []string{types.AlgHMACSHA256, types.AlgEd25519},
		RetentionDays:       30,
		ReplayWindowSeconds: 120,
	}
	if minor >= 4 {
		c.Ack = &types.AckOffer{Enabled: true, SignatureAlgs: []string{types.AlgHMACSHA256, types.AlgEd25519}}
		c.Inbound = &types.Inbound{
			Enabled: true, PollURL: inboxPath, AckURL: inboxPath + "/ack",
			MaxBatch: defaultMaxBatch, VisibilityTimeoutSeconds: defaultVisibility, RetentionDays: 30,
			SignatureAlgs: []string{types.AlgHMACSHA256, types.AlgEd25519}, WebhookSupported: true,
		}
		c.Presence = &types.PresenceIn{Enabled: true, FreshnessSeconds: defaultFreshness}
	}
	return c
}

// discover serves the document. A URL in it that is only a path is under
// whatever origin the caller used.
func (h *Hub) discover(c *call) reply {
	doc := h.caps
	if doc.Inbound != nil {
		doc.Inbound = new(*doc.Inbound)
		for _, u := range []*string{&doc.Inbound.PollURL, &doc.Inbound.AckURL} {
			if strings.HasPrefix(*u, "/") {
				*u = c.origin + *u
			}
		}
	}
	return jsonReply(http.StatusOK, doc)
}
