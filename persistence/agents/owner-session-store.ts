import type { Sql } from '../start-postgres-and-redis.ts'

/** Sessions of owners in a browser, links by e-mail, and confirmed addresses. Only hashes are stored. */

/** An agent of a session. */
export interface OwnerSessionAgent {
  readonly agentId: string
  readonly name: string
}

export interface OwnerSessionRecord {
  readonly expiresAt: Date
  readonly agents: readonly OwnerSessionAgent[]
}

/** An agent, and the key that a session acts as. */
export interface OwnerSessionAgentAndKey {
  readonly agentId: string
  readonly keyId: string
}

/** A session to open. */
export interface NewOwnerSession {
  readonly hash: string
  /** Of the browser's session before this one. */
  readonly former: string | null
  /** The agents of the former session move into this one. */
  readonly keepsAgents: boolean
  readonly members: readonly OwnerSessionAgentAndKey[]
  readonly seconds: number
}

/** A link to send. */
export interface NewOwnerEmailLink {
  readonly hash: string
  /** In lower case. */
  readonly email: string
  /** What the link confirms the address for; null for a link that signs in. */
  readonly confirms: OwnerSessionAgentAndKey | null
  readonly seconds: number
  /** Links of each kind that one address gets in an hour. */
  readonly mostPerHour: number
  /** The same of links that confirm, where an agent without a link in this hour still gets one. */
  readonly mostConfirmingPerHour: number
  /** Links that confirm addresses for one agent in a day. */
  readonly mostPerAgentAndDay: number
}

/** Whether a link was stored, or whose limit refuses it. */
export type OwnerEmailLinkStoreOutcome = 'added' | 'address_limit' | 'agent_limit'

/** A link that was opened. */
export interface OpenedOwnerEmailLink {
  readonly email: string
  readonly confirms: OwnerSessionAgentAndKey | null
}

/** Unbound keys that manage keys and end only by a revocation. */
const MANAGES_KEYS = `k.revoked_at is null and k.expires_at is null and k.backpack_id is null
  and k.cap_micros is null and k.cap_per_day_micros is null and k.cap_per_month_micros is null
  and k.scopes && array['*', 'keys']`

export function createOwnerSessionStore(sql: Sql) {
  return {
    /**
     * Opens a session with these agents, and ends the former one. With `keepsAgents` those of an open former
     * one move into it, with its end.
     */
    async open(session: NewOwnerSession): Promise<void> {
      const { hash, former, keepsAgents, members, seconds } = session
      const agents = members.map(({ agentId }) => agentId)
      const keys = members.map(({ keyId }) => keyId)
      await sql.begin(async (tx) => {
        const [ended] = await tx<{ expires_at: Date }[]>`
          select expires_at from owner_sessions
           where hash = ${former} and ${keepsAgents} and expires_at > now() for update`
        await tx`
          insert into owner_sessions (hash, created_at, expires_at)
          values (${hash}, now(), coalesce(${ended?.expires_at ?? null}::timestamptz,
                                           now() + make_interval(secs => ${seconds})))`
        if (ended !== undefined)
          await tx`update owner_session_agents set hash = ${hash} where hash = ${former}`
        await tx`delete from owner_sessions where hash = ${former}`
        await tx`
          insert into owner_session_agents (hash, agent_id, key_id, added_at)
          select ${hash}, a::uuid, k::uuid, now()
            from unnest(${agents}::text[], ${keys}::text[]) x(a, k)
          on conflict (hash, agent_id) do update set key_id = excluded.key_id`
      })
    },

    /** An open session; null for an unknown, ended or empty one. */
    async find(hash: string): Promise<OwnerSessionRecord | null> {
      const rows = await sql<{ expires_at: Date; agent_id: string; name: string }[]>`
        select s.expires_at, m.agent_id, a.name from owner_sessions s
          join owner_session_agents m using (hash) join agents a using (agent_id)
          join api_keys k on k.id = m.key_id
         where s.hash = ${hash} and s.expires_at > now() and k.revoked_at is null
           and (k.expires_at is null or k.expires_at > now())
         order by m.added_at, m.agent_id`
      const [first] = rows
      if (first === undefined) return null
      const agents = rows.map((row) => ({ agentId: row.agent_id, name: row.name }))
      return { expiresAt: first.expires_at, agents }
    },

    async end(hash: string): Promise<void> {
      await sql`delete from owner_sessions where hash = ${hash}`
    },

    /** Stores a link, unless the address or the agent has had its links. */
    async addLink(link: NewOwnerEmailLink): Promise<OwnerEmailLinkStoreOutcome> {
      const { hash, email, confirms, seconds, mostPerAgentAndDay } = link
      const { agentId = null, keyId = null } = confirms ?? {}
      return sql.begin(async (tx) => {
        for (const counted of [email, agentId ?? email])
          await tx`select pg_advisory_xact_lock(hashtextextended(${`owner link:${counted}`}, 0))`
        // Each kind by itself: any agent may name an address, and must not use up what signs its owner in.
        const [sent] = await tx<
          { to_address: number; to_address_by_agent: number; by_agent: number }[]
        >`
          select (select count(*)::int from owner_links
                   where email = ${email} and (agent_id is null) = (${agentId}::uuid is null)
                     and created_at > now() - interval '1 hour') as to_address,
                 (select count(*)::int from owner_links
                   where email = ${email} and agent_id = ${agentId}::uuid
                     and created_at > now() - interval '1 hour') as to_address_by_agent,
                 (select count(*)::int from owner_links
                   where agent_id = ${agentId}::uuid
                     and created_at > now() - interval '1 day') as by_agent`
        const isFirst = agentId !== null && sent?.to_address_by_agent === 0
        const most = isFirst ? link.mostConfirmingPerHour : link.mostPerHour
        if (sent !== undefined && sent.to_address >= most) return 'address_limit'
        if (sent !== undefined && sent.by_agent >= mostPerAgentAndDay) return 'agent_limit'
        await tx`
          insert into owner_links (hash, email, agent_id, key_id, created_at, expires_at)
          values (${hash}, ${email}, ${agentId}::uuid, ${keyId}::uuid, now(),
                  now() + make_interval(secs => ${seconds}))`
        return 'added'
      })
    },

    /** Uses a link up; null for an unknown, expired or used one. */
    async useLink(hash: string): Promise<OpenedOwnerEmailLink | null> {
      const [row] = await sql<{ email: string; agent_id: string | null; key_id: string | null }[]>`
        update owner_links set used_at = now()
         where hash = ${hash} and used_at is null and expires_at > now()
        returning email, agent_id, key_id`
      if (row === undefined) return null
      const { email, agent_id: agentId, key_id: keyId } = row
      return { email, confirms: agentId === null || keyId === null ? null : { agentId, keyId } }
    },

    /**
     * Notes that the owner reads mail at this address, if it is still the agent's and the key that named it was
     * not revoked.
     */
    async confirmContact(
      { agentId, keyId }: OwnerSessionAgentAndKey,
      email: string,
    ): Promise<void> {
      await sql`
        insert into confirmed_contacts (agent_id, email, key_id, confirmed_at)
        select a.agent_id, ${email}, k.id, now() from agents a join api_keys k using (agent_id)
         where a.agent_id = ${agentId} and lower(a.contact_email) = ${email}
           and k.id = ${keyId} and k.revoked_at is null for share of k
        on conflict (agent_id) do update
          set email = excluded.email, key_id = excluded.key_id, confirmed_at = now()`
    },

    /** Whether the owner of an agent has confirmed an address; it may not be the agent's now. */
    async hasConfirmed(agentId: string, email: string): Promise<boolean> {
      const [row] = await sql`
        select from confirmed_contacts where agent_id = ${agentId} and email = ${email}`
      return row !== undefined
    },

    /** Whether an address opens any agent. */
    async isConfirmed(email: string): Promise<boolean> {
      const [row] = await sql`
        select from confirmed_contacts c join agents a using (agent_id)
         where c.email = ${email} and lower(a.contact_email) = c.email limit 1`
      return row !== undefined
    },

    /** The agents whose confirmed address this is, each with its best key; `agentId` picks one. */
    async membersOf(email: string, agentId: string | null): Promise<OwnerSessionAgentAndKey[]> {
      const rows = await sql<{ agent_id: string; key_id: string }[]>`
        select distinct on (c.agent_id) c.agent_id, k.id as key_id
          from confirmed_contacts c join agents a using (agent_id)
          join api_keys k using (agent_id)
         where c.email = ${email} and lower(a.contact_email) = c.email
           and (${agentId}::uuid is null or c.agent_id = ${agentId}::uuid) and ${sql.unsafe(MANAGES_KEYS)}
         order by c.agent_id, ('*' = any(k.scopes)) desc, k.id limit 100`
      return rows.map((row) => ({ agentId: row.agent_id, keyId: row.key_id }))
    },

    /** Deletes sessions that have ended and links of yesterday. */
    async sweep(): Promise<void> {
      await sql`delete from owner_sessions where expires_at < now()`
      await sql`delete from owner_links where created_at < now() - interval '1 day'`
    },
  }
}
export type OwnerSessionStore = ReturnType<typeof createOwnerSessionStore>
