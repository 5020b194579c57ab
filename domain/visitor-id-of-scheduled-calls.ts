/** Who calls for a schedule, as far as addresses go: its agent, from no address. */

const PREFIX = 'schedule '

/** The visitor id of the runs of an agent's schedules. */
export const scheduleVisitorId = (agentId: string): string => `${PREFIX}${agentId}`

/** Whether a call comes from a schedule. Ids of addresses are hashes and never begin so. */
export const isScheduleVisitorId = (visitorId: string): boolean => visitorId.startsWith(PREFIX)
