package signed

// table holds every context. The members of a context and of a digest stand in
// the order of RFC 8785. A name of the protocol never needs escaping.
//
// A pushed Response and its id: §9.2 names both id and in_reply_to, the body
// has only the latter, and they are equal.
var table = []Context{
	{
		kind: Response, from: 2, to: 2, // §9.2 of 0.2
		members: []member{
			{name: "callback_url", source: callback},
			{name: "id", of: "in_reply_to"},
			{name: "in_reply_to", of: "in_reply_to"},
			{name: "jti", source: headerJTI},
			{name: "ma2h_version", of: "ma2h_version"},
			{name: "resolution", of: "resolution"},
			{name: "resolution_id", of: "resolution_id"},
			{name: "resolved_at", under: "response", of: "resolved_at"},
			{name: "t", source: headerT},
		},
	},
	{
		kind: Response, from: 3, // §9.2
		members: []member{
			{name: "callback_url", source: callback},
			{name: "id", of: "in_reply_to"},
			{name: "in_reply_to", of: "in_reply_to"},
			{name: "jti", source: headerJTI},
			{name: "ma2h_version", of: "ma2h_version"},
			{name: "payload_sha256", source: payload},
			{name: "resolution", of: "resolution"},
			{name: "resolution_id", of: "resolution_id"},
			{name: "resolved_at", under: "response", of: "resolved_at"},
			{name: "t", source: headerT},
		},
		digest: &digest{members: []string{"response", "state"}, absent: isNull},
	},
	{
		kind: Directive, from: 4, // §9.7
		members: []member{
			{name: "from", of: "from"},
			{name: "id", of: "id"},
			{name: "jti", source: headerJTI},
			{name: "ma2h_version", of: "ma2h_version"},
			{name: "payload_sha256", source: payload},
			{name: "t", source: headerT},
			{name: "to", of: "to"},
		},
		digest: &digest{wrapper: "directive", members: []string{"body", "context", "priority", "tags", "title"}, absent: isLeftOut},
	},
	{
		kind: Ack, from: 4, // §14.4
		members: []member{
			{name: "ack_sha256", source: payload},
			{name: "by", of: "by"},
			{name: "in_reply_to", of: "in_reply_to"},
			{name: "jti", source: headerJTI},
			{name: "ma2h_version", of: "ma2h_version"},
			{name: "t", source: headerT},
		},
		digest: &digest{members: []string{"acked_at", "by", "in_reply_to", "note", "resolution_id"}, absent: isNull},
	},
}
