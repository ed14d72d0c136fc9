package ma2htest

import (
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

const defaultFreshness = 90 // seconds

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
		c.Presence = &types.PresenceIn{Enabled: true, FreshnessSeconds: defaultFreshness}
	}
	return c
}

func (h *Hub) discover(*call) reply {
	b, err := types.Encode(h.caps)
	if err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{status: http.StatusOK, body: b}
}
