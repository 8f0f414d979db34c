//! Panics during a run. Tokio catches those of its tasks, and the store those of the kernel: nobody would see them.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static RECORDED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Records the panics of this thread from now on, instead of printing them.
pub fn record() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let recorded = RECORDED.with_borrow_mut(|list| match list {
                Some(list) => {
                    list.push(panic.to_string());
                    true
                }
                None => false,
            });
            if !recorded {
                before(panic);
            }
        }));
    });
    RECORDED.set(Some(Vec::new()));
}

/// What was recorded. From now on panics are printed again.
pub fn recorded() -> Vec<String> {
    RECORDED.take().unwrap_or_default()
}
