//! The scripts, run by a real Lua 5.1 on the simulated data.
//!
//! One Lua for each thread, because it can't be sent to another. It keeps nothing between two calls but the compiled
//! scripts, so that a run does not depend on those before it.

use std::cell::RefCell;

use mlua::{Function, Lua, MultiValue, Table, Value as LuaValue};
use redis::Value;
use rustc_hash::FxHashMap;

use super::db::{Answer, Bytes, Db, Wrong};

struct Machine {
    lua: Lua,
    compiled: FxHashMap<String, Function>,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
    /// The data that the running script works on.
    static DB: RefCell<Db> = RefCell::new(Db::default());
}

/// Runs a script on the data.
pub fn run(db: &mut Db, hash: &str, source: &str, keys: &[Bytes], args: &[Bytes]) -> Answer {
    MACHINE.with_borrow_mut(|machine| {
        let machine = machine.get_or_insert_with(|| Machine::new().expect("Lua starts"));
        DB.with_borrow_mut(|slot| std::mem::swap(slot, db));
        let answer = machine.call(hash, source, keys, args);
        DB.with_borrow_mut(|slot| std::mem::swap(slot, db));
        match answer {
            Ok(value) => to_redis(&value),
            Err(error) => Err(Wrong(said(&error))),
        }
    })
}

/// The words of Redis inside of what Lua says.
fn said(error: &mlua::Error) -> String {
    let text = error.to_string();
    let text = text.lines().next().unwrap_or_default().trim_start_matches("runtime error: ").to_owned();
    if text.starts_with("WRONGTYPE") { text } else { format!("ERR {text}") }
}

impl Machine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        let redis = lua.create_table()?;
        redis.set("call", lua.create_function(|lua, command: MultiValue| call(lua, command))?)?;
        let cjson = lua.create_table()?;
        cjson.set("decode", lua.create_function(|lua, text: mlua::String| decode(lua, &text.as_bytes()))?)?;
        let cmsgpack = lua.create_table()?;
        cmsgpack.set("pack", lua.create_function(|lua, list: Table| lua.create_string(pack(&list)?))?)?;
        cmsgpack.set(
            "unpack",
            lua.create_function(|lua, packed: mlua::String| unpack(lua, &packed.as_bytes()))?,
        )?;
        let globals = lua.globals();
        globals.set("redis", redis)?;
        globals.set("cjson", cjson)?;
        globals.set("cmsgpack", cmsgpack)?;
        Ok(Self { lua, compiled: FxHashMap::default() })
    }

    fn call(&mut self, hash: &str, source: &str, keys: &[Bytes], args: &[Bytes]) -> mlua::Result<LuaValue> {
        let list = |items: &[Bytes]| -> mlua::Result<Table> {
            let table = self.lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, self.lua.create_string(item)?)?;
            }
            Ok(table)
        };
        let (keys, args) = (list(keys)?, list(args)?);
        if !self.compiled.contains_key(hash) {
            // As arguments and not as globals: a script must not find those of the one before it.
            let whole = format!("return function(KEYS, ARGV) {source}\nend");
            let function: Function = self.lua.load(whole).eval()?;
            self.compiled.insert(hash.to_owned(), function);
        }
        self.compiled[hash].call((keys, args))
    }
}

fn call(lua: &Lua, command: MultiValue) -> mlua::Result<LuaValue> {
    let words = command.iter().map(word).collect::<mlua::Result<Vec<Bytes>>>()?;
    let answer = DB.with_borrow_mut(|db| db.run(&words));
    match answer {
        Ok(value) => to_lua(lua, &value),
        Err(Wrong(text)) => Err(mlua::Error::RuntimeError(text)),
    }
}

fn word(value: &LuaValue) -> mlua::Result<Bytes> {
    match value {
        LuaValue::String(text) => Ok(text.as_bytes().to_vec()),
        LuaValue::Integer(number) => Ok(number.to_string().into_bytes()),
        LuaValue::Number(number) => Ok(number_text(*number).into_bytes()),
        _ => Err(mlua::Error::RuntimeError("arguments must be strings or integers".into())),
    }
}

fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e17 { format!("{number:.0}") } else { format!("{number}") }
}

fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Boolean(false),
        Value::Int(number) => LuaValue::Number(*number as f64),
        Value::BulkString(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Okay | Value::SimpleString(_) => {
            let table = lua.create_table()?;
            table.raw_set("ok", "OK")?;
            LuaValue::Table(table)
        }
        other => return Err(mlua::Error::RuntimeError(format!("no Lua for {other:?}"))),
    })
}

/// As Redis does it: numbers lose their fraction, lists end at the first nil.
fn to_redis(value: &LuaValue) -> Answer {
    Ok(match value {
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(number) => Value::Int(*number),
        LuaValue::Number(number) => Value::Int(*number as i64),
        LuaValue::String(text) => Value::BulkString(text.as_bytes().to_vec()),
        LuaValue::Table(table) => {
            let mut items = Vec::new();
            for i in 1.. {
                match table.raw_get(i) {
                    Ok(LuaValue::Nil) | Err(_) => break,
                    Ok(item) => items.push(to_redis(&item)?),
                }
            }
            Value::Array(items)
        }
        _ => Value::Nil,
    })
}

fn decode(lua: &Lua, text: &[u8]) -> mlua::Result<LuaValue> {
    let json = serde_json::from_slice(text).map_err(|error| mlua::Error::RuntimeError(error.to_string()))?;
    from_json(lua, &json)
}

fn from_json(lua: &Lua, json: &serde_json::Value) -> mlua::Result<LuaValue> {
    use serde_json::Value as Json;
    Ok(match json {
        Json::Null => LuaValue::NULL,
        Json::Bool(truth) => LuaValue::Boolean(*truth),
        Json::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => LuaValue::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table()?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, from_json(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table()?;
            for (name, item) in fields {
                table.raw_set(name.as_str(), from_json(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// MessagePack for what the scripts pack: one list of texts.
fn pack(list: &Table) -> mlua::Result<Bytes> {
    let length = list.raw_len();
    assert!(length < 16, "the scripts pack short lists");
    let mut packed = vec![0x90 | length as u8];
    for i in 1..=length {
        let text: mlua::String = list.raw_get(i)?;
        let text = text.as_bytes();
        match text.len() {
            n @ 0..32 => packed.push(0xa0 | n as u8),
            n @ 32..256 => packed.extend([0xd9, n as u8]),
            n @ 256..65_536 => {
                packed.push(0xda);
                packed.extend((n as u16).to_be_bytes());
            }
            n => {
                packed.push(0xdb);
                packed.extend((n as u32).to_be_bytes());
            }
        }
        packed.extend_from_slice(&text);
    }
    Ok(packed)
}

fn unpack(lua: &Lua, packed: &[u8]) -> mlua::Result<Table> {
    let bad = || mlua::Error::RuntimeError("Bad data format in input.".into());
    let table = lua.create_table()?;
    let (first, mut rest) = packed.split_first().ok_or_else(bad)?;
    for i in 1..=usize::from(first & 0x0f) {
        let (mark, after) = rest.split_first().ok_or_else(bad)?;
        let (width, length) = match mark {
            0xa0..=0xbf => (0, usize::from(mark & 0x1f)),
            0xd9 => (1, usize::from(*after.first().ok_or_else(bad)?)),
            0xda => (2, usize::from(u16::from_be_bytes(*after.first_chunk().ok_or_else(bad)?))),
            0xdb => (4, u32::from_be_bytes(*after.first_chunk().ok_or_else(bad)?) as usize),
            _ => return Err(bad()),
        };
        let (text, after) = after[width..].split_at_checked(length).ok_or_else(bad)?;
        table.raw_set(i, lua.create_string(text)?)?;
        rest = after;
    }
    Ok(table)
}
