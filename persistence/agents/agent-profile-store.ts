import { ServiceError } from '../../core/errors.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Public profiles of agents and the contact addresses of their owners. */

export interface AgentProfileRecord {
  readonly agentId: string
  readonly name: string
  readonly description: string | null
  readonly framework: string | null
  readonly toolCategory: string | null
  readonly preferredPayment: string | null
  readonly referralCode: string | null
  readonly contactEmail: string | null
  readonly ownerEmail: string | null
  readonly ownerTelegram: string | null
  readonly source: string | null
  readonly createdAt: Date
  /** Whether the owner agreed that public pages name the agent. */
  readonly discoverable: boolean
  /** The current deposit address. */
  readonly walletAddress: string | null
  /** Whether its owner has opened a link that was sent to `contactEmail`. */
  readonly isContactConfirmed: boolean
}

/** What an owner decides of a public profile. */
export interface PublicAgentProfile {
  readonly description: string | null
  readonly framework: string | null
  readonly discoverable: boolean
}

/** A change of it; undefined keeps a field. */
export interface AgentProfileChange {
  readonly description?: string | null | undefined
  readonly framework?: string | null | undefined
  readonly discoverable?: boolean | undefined
}

export interface OwnerContactChange {
  readonly ownerEmail?: string | null | undefined
  readonly ownerTelegram?: string | null | undefined
}

/** Row of a new agent, as a command stages it with `ctx.row`. */
export function toAgentRow(
  profile: Omit<AgentProfileRecord, 'walletAddress' | 'isContactConfirmed'>,
): Record<string, unknown> {
  return {
    agent_id: profile.agentId,
    name: profile.name,
    description: profile.description,
    framework: profile.framework,
    tool_category: profile.toolCategory,
    preferred_payment: profile.preferredPayment,
    referral_code: profile.referralCode,
    contact_email: profile.contactEmail,
    owner_email: profile.ownerEmail,
    owner_telegram: profile.ownerTelegram,
    source: profile.source,
    created_at: profile.createdAt.toISOString(),
    discoverable: profile.discoverable,
  }
}

/** Reads and updates profiles and owner contacts. */
export function createAgentProfileStore(sql: Sql) {
  return {
    async of(agentId: string): Promise<AgentProfileRecord | null> {
      const [row] = await sql<ProfileRow[]>`
        select a.*, (select address from wallets w where w.agent_id = a.agent_id
                        and w.status = 'active' order by created_at desc limit 1) as wallet_address,
               exists (select from confirmed_contacts c where c.agent_id = a.agent_id
                          and c.email = lower(a.contact_email)) as contact_confirmed
          from agents a where a.agent_id = ${agentId}`
      return row === undefined ? null : fromRow(row)
    },

    /** Whether the agent exists; agents are never removed. */
    async has(agentId: string): Promise<boolean> {
      const [row] = await sql`select from agents where agent_id = ${agentId}`
      return row !== undefined
    },

    /** Updates the public profile. */
    async update(
      tx: DatabaseTransaction,
      agentId: string,
      { description, framework, discoverable }: AgentProfileChange,
    ): Promise<PublicAgentProfile> {
      const [row] = await tx<PublicAgentProfile[]>`
        update agents set
          description = case when ${description === undefined} then description
                             else ${description ?? null} end,
          framework = case when ${framework === undefined} then framework
                           else ${framework ?? null} end,
          discoverable = coalesce(${discoverable ?? null}, discoverable)
         where agent_id = ${agentId} returning description, framework, discoverable`
      if (row === undefined) throw new ServiceError('agent_not_found')
      return row
    },

    /** Sets the address of the digest, by which its owner may sign in once it is confirmed. */
    async setContactEmail(agentId: string, email: string): Promise<void> {
      await sql`update agents set contact_email = ${email} where agent_id = ${agentId}`
    },

    /** Updates the owner's addresses; undefined keeps an address, null removes it. */
    async setContact(
      tx: DatabaseTransaction,
      agentId: string,
      contact: OwnerContactChange,
    ): Promise<Required<OwnerContactChange>> {
      const [row] = await tx<{ owner_email: string | null; owner_telegram: string | null }[]>`
        update agents set
          owner_email = case when ${contact.ownerEmail === undefined} then owner_email
                             else ${contact.ownerEmail ?? null} end,
          owner_telegram = case when ${contact.ownerTelegram === undefined} then owner_telegram
                                else ${contact.ownerTelegram ?? null} end
         where agent_id = ${agentId} returning owner_email, owner_telegram`
      return {
        ownerEmail: row?.owner_email ?? null,
        ownerTelegram: row?.owner_telegram ?? null,
      }
    },
  }
}
export type AgentProfileStore = ReturnType<typeof createAgentProfileStore>

interface ProfileRow {
  agent_id: string
  name: string
  description: string | null
  framework: string | null
  tool_category: string | null
  preferred_payment: string | null
  referral_code: string | null
  contact_email: string | null
  owner_email: string | null
  owner_telegram: string | null
  source: string | null
  created_at: Date
  discoverable: boolean
  wallet_address: string | null
  contact_confirmed: boolean
}

const fromRow = (row: ProfileRow): AgentProfileRecord => ({
  agentId: row.agent_id,
  name: row.name,
  description: row.description,
  framework: row.framework,
  toolCategory: row.tool_category,
  preferredPayment: row.preferred_payment,
  referralCode: row.referral_code,
  contactEmail: row.contact_email,
  ownerEmail: row.owner_email,
  ownerTelegram: row.owner_telegram,
  source: row.source,
  createdAt: row.created_at,
  discoverable: row.discoverable,
  isContactConfirmed: row.contact_confirmed,
  walletAddress: row.wallet_address,
})
