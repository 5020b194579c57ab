import type { ParsedGoal } from './parse-goal.ts'

/** Predicates on parsed goals, used by the patterns that select tools. */

/** Returns a predicate that tests the words of a goal. */
export const createGoalPatternPredicate =
  (pattern: RegExp) =>
  ({ words }: ParsedGoal): boolean =>
    pattern.test(words)
export const goalNamesTokenSymbol = ({ symbols }: ParsedGoal): boolean => symbols.length > 0

const SENDING = /\b(?:send|mail|forward|write|notify|tell|report|alert|let)\b/i
const MAIL = /\be-?mail(?:s|ed|ing)?\b|\bmail (?:it|them|this|that|him|her|me|us|to|the|a)\b/i
const ADDRESSES_OF_MAIL = /\be-?mail address(?:es)?\b/gi
const INBOX = /\b(?:check|read|fetch|open|search) (?:my |the |new |unread )*(?:e-?mails?|inbox)\b/i
const DRAFT = /\bdraft\b/i

/** Returns whether the words ask for a letter or name an e-mail address. */
export function goalAsksForMail({ words, emails }: ParsedGoal): boolean {
  if (INBOX.test(words)) return false
  const plain = words.replace(ADDRESSES_OF_MAIL, ' ')
  if (DRAFT.test(plain) && !/\bsend\b/i.test(plain)) return false
  if (emails.length > 0) return SENDING.test(plain) || MAIL.test(plain)
  return MAIL.test(plain) || (/\bnewsletters?\b/i.test(plain) && /\bsend\b/i.test(plain))
}

export const goalAsksToNotifyOwner = createGoalPatternPredicate(
  /\b(?:notify|alert|ping|warn|message|text) (?:me|us|my (?:owner|operator|human))\b|\b(?:tell me|tell us|let me know) (?:when|if|once|as soon)\b/i,
)
export const goalAsksForOtherAgents = createGoalPatternPredicate(
  /\b(?:all|every|other) (?:active )?agents?\b|\bswarm\b/i,
)
