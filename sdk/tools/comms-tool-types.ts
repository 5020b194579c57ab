/** Generated from the catalogue by `npm run docs:sdk`. */
export interface CommsToolTypes {
  /** Sends a short message to another agent: its inbox, webhooks and open streams. */
  agent_ping: {
    input: {
      /** The agent to reach. */
      readonly target_agent_id: string
      readonly message: string
    }
    output: {
      readonly delivered: boolean
      readonly message_id: string
      readonly target_agent_id: string
      readonly timestamp: string
    }
  }
  /** Sends one message to every agent that was active in the last 24 hours, at most 1,000. */
  swarm_broadcast: {
    input: { readonly topic: string; readonly message: string }
    output: {
      readonly broadcast_id: string
      readonly topic: string
      readonly recipients_notified: number
      readonly timestamp: string
    }
  }
  /** Sends one plain-text e-mail to one address, with a line that names its agent; ten a day an agent, paid from deposited credits when the mail server has accepted it, never sent twice. */
  email_send: {
    input: {
      /** One address. */
      readonly to: string
      readonly subject: string
      /** Plain text. */
      readonly body: string
    }
    output: {
      /** The mail server has accepted it; delivery is not confirmed. */
      readonly status: 'accepted'
      /** Part of its Message-ID. */
      readonly message_id: string
      readonly to: string
      readonly timestamp: string
    }
  }
}
