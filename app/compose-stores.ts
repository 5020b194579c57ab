import { aggregateStore } from '../persistence/aggregates.ts'
import { backpackStatementStore } from '../persistence/backpack-statement.ts'
import { callLog } from '../persistence/call-log.ts'
import { clipboardStore } from '../persistence/clipboard.ts'
import { dropStore } from '../persistence/drops.ts'
import { keyringStore } from '../persistence/keyring.ts'
import { keyStore } from '../persistence/keys.ts'
import { messageStore } from '../persistence/messages.ts'
import { onceStore } from '../persistence/once.ts'
import { ownListStore } from '../persistence/own-lists.ts'
import { profileStore } from '../persistence/profiles.ts'
import { referralStore } from '../persistence/referrals.ts'
import { statementStore } from '../persistence/statement.ts'
import { transferStore } from '../persistence/transfers.ts'
import type { Ground } from './compose-ground.ts'

export type StoreParts = Pick<Ground, 'clock' | 'plane' | 'sql' | 'own' | 'sealingFor'>

/** The stores that more than one part reads, or that routes read as they are. */
export function composeStores({ clock, plane, sql, own, sealingFor }: StoreParts) {
  return {
    aggregates: aggregateStore(plane.lane),
    /** What the routes reach of it. */
    served: {
      callLog: callLog(sql),
      keys: keyStore(sql, own.pepper),
      profiles: profileStore(sql),
      keyring: keyringStore(sql, sealingFor('keyring')),
      clipboard: clipboardStore(sql),
      messages: messageStore(sql),
      once: onceStore(sql, clock, sealingFor('answers')),
      referrals: referralStore(sql),
      drops: dropStore(sql),
      ledger: transferStore(sql),
      ownLists: ownListStore(sql),
      statements: statementStore(sql),
      backpackStatements: backpackStatementStore(sql),
    },
  }
}

export type Stores = ReturnType<typeof composeStores>
